"""Curves of metrics, importances and split values."""

from typing import Any

import matplotlib

matplotlib.use("Agg")

from sklearn.datasets import load_iris

import fullhess.lightgbm as lgb

X, y = load_iris(return_X_y=True, as_frame=True)
train_data = lgb.Dataset(X[::2], label=y[::2])
valid_data = lgb.Dataset(X[1::2], label=y[1::2], reference=train_data)
curves: dict[str, Any] = {}
params = {"objective": "multiclass", "num_class": 3, "min_data_in_leaf": 5, "verbose": -1}
booster = lgb.train(
    params,
    train_data,
    num_boost_round=10,
    valid_sets=[train_data, valid_data],
    valid_names=["train", "valid"],
    callbacks=[lgb.record_evaluation(curves)],
)
print("lines:", len(lgb.plot_metric(curves, metric="multi_logloss").lines))
print("bars:", len(lgb.plot_importance(booster, importance_type="gain").patches))
print("bars:", len(lgb.plot_split_value_histogram(booster, feature=2).patches) > 0)
