"""Train with evaluation sets and early stopping, save, load, predict."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fullhess.xgboost as xgb

X, y = load_digits(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, random_state=0)
dtrain = xgb.DMatrix(X_train, label=y_train)
dvalid = xgb.DMatrix(X_valid, label=y_valid)

params = {
    "objective": "multi:softprob",
    "num_class": 10,
    "eta": 0.3,
    "max_depth": 4,
    "eval_metric": ["merror", "mlogloss"],
}
history = {}
booster = xgb.train(
    params,
    dtrain,
    num_boost_round=30,
    evals=[(dtrain, "train"), (dvalid, "valid")],
    early_stopping_rounds=5,
    evals_result=history,
    verbose_eval=10,
)
print("best round is known:", booster.best_iteration < 30)
print("metrics:", list(history["valid"]))

booster.save_model("digits.json")
again = xgb.Booster(model_file="digits.json")
probability = again.predict(dvalid, iteration_range=(0, booster.best_iteration + 1))
print("probabilities of shape", probability.shape)
print("accuracy above 0.93:", (probability.argmax(axis=1) == y_valid).mean() > 0.93)
