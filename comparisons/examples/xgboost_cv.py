"""Cross-validation with early stopping."""

from sklearn.datasets import load_wine

import fullhess.xgboost as xgb

X, y = load_wine(return_X_y=True)
dtrain = xgb.DMatrix(X, label=y)
params = {"objective": "multi:softprob", "num_class": 3, "eta": 0.3, "max_depth": 3}
table = xgb.cv(
    params,
    dtrain,
    num_boost_round=40,
    nfold=5,
    stratified=True,
    metrics=["mlogloss", "merror"],
    early_stopping_rounds=5,
    seed=1,
)
print(list(table.columns))
print("stopped early:", len(table) < 40)
print("held-out loss falls:", table["test-mlogloss-mean"].iloc[-1] < 0.5)
