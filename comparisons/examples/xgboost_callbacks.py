"""XGBoost's callbacks and one of one's own."""

import tempfile

from sklearn.datasets import load_iris

import fullhess.xgboost as xgb

X, y = load_iris(return_X_y=True)
dtrain = xgb.DMatrix(X[::2], label=y[::2])
dvalid = xgb.DMatrix(X[1::2], label=y[1::2])


class Counter(xgb.callback.TrainingCallback):
    """Counts rounds and looks at the model between them."""

    def __init__(self):
        self.rounds = 0

    def after_iteration(self, model, epoch, evals_log):
        self.rounds += 1
        assert model.num_boosted_rounds() == self.rounds
        assert len(evals_log["valid"]["mlogloss"]) == self.rounds
        return False


counter = Counter()
with tempfile.TemporaryDirectory() as folder:
    booster = xgb.train(
        {"objective": "multi:softprob", "num_class": 3, "max_depth": 2},
        dtrain,
        num_boost_round=60,
        evals=[(dvalid, "valid")],
        verbose_eval=False,
        callbacks=[
            counter,
            xgb.callback.LearningRateScheduler(lambda i: 0.5 * 0.95**i),
            xgb.callback.TrainingCheckPoint(directory=folder, interval=5),
            xgb.callback.EarlyStopping(rounds=5, save_best=True, metric_name="mlogloss"),
        ],
    )
print("rounds were counted:", counter.rounds > 1)
print("the best rounds are kept:", booster.num_boosted_rounds() == booster.best_iteration + 1)
