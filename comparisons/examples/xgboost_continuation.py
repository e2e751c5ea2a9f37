"""Train in two sessions, with a file in between."""

from sklearn.datasets import load_wine

import fullhess.xgboost as xgb

X, y = load_wine(return_X_y=True)
dtrain = xgb.DMatrix(X, label=y)
params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "eta": 0.1}

first = xgb.train(params, dtrain, num_boost_round=5)
first.save_model("first.ubj")
second = xgb.train(params, dtrain, num_boost_round=5, xgb_model="first.ubj")
print("rounds:", second.num_boosted_rounds())

loss = [float(b.eval(dtrain).split(":")[1]) for b in (first, second)]
print("the loss went on falling:", loss[1] < loss[0])
print("a slice is the first session:", float(second[:5].eval(dtrain).split(":")[1]) == loss[0])
