"""Train, stop early, predict, save and load: the usual course of a multiclass problem."""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fullhess.lightgbm as lgb

X, y = load_digits(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.3, random_state=0)

train_data = lgb.Dataset(X_train, label=y_train)
valid_data = lgb.Dataset(X_valid, label=y_valid, reference=train_data)

params = {
    "boosting_type": "gbdt",
    "objective": "multiclass",
    "num_class": 10,
    "metric": {"multi_logloss", "multi_error"},
    "num_leaves": 7,
    "learning_rate": 0.3,
    "feature_fraction": 0.9,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "verbose": 0,
}

booster = lgb.train(
    params,
    train_data,
    num_boost_round=12,
    valid_sets=[valid_data],
    callbacks=[lgb.early_stopping(stopping_rounds=5), lgb.log_evaluation(4)],
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.txt"
    booster.save_model(path, num_iteration=booster.best_iteration)
    loaded = lgb.Booster(model_file=path)

probability = loaded.predict(X_valid)
accuracy = float((np.argmax(probability, axis=1) == y_valid).mean())
print(f"accuracy on held-out rows: {accuracy:.3f}")
