"""Weights, categories, continued training, one's own objective, cross-validation."""

import json
import pickle
from typing import Any

import numpy as np
import pandas as pd

import fullhess.lightgbm as lgb

rng = np.random.default_rng(7)
n = 900
frame = pd.DataFrame(
    {
        "height": rng.normal(size=n),
        "width": rng.normal(size=n),
        "colour": pd.Categorical(rng.choice(["red", "green", "blue", "grey"], n)),
    }
)
shift = frame["colour"].map({"red": 0.0, "green": 1.0, "blue": -1.0, "grey": 0.0}).astype(float)
target = pd.cut(
    frame["height"] + shift + 0.3 * rng.normal(size=n), [-np.inf, -0.7, 0.7, np.inf], labels=False
)
weight = rng.uniform(0.5, 1.5, n)

train_data = lgb.Dataset(
    frame[:600], label=target[:600], weight=weight[:600], categorical_feature=["colour"],
    free_raw_data=False,
)  # fmt: skip
valid_data = train_data.create_valid(frame[600:], label=target[600:], weight=weight[600:])
params: dict[str, Any] = {
    "objective": "multiclass",
    "num_class": 3,
    "num_leaves": 7,
    "verbose": -1,
}

# Ten rounds, then five more at a falling rate.
first = lgb.train(params, train_data, 10, valid_sets=[train_data, valid_data])
history: dict[str, Any] = {}
second = lgb.train(
    params,
    train_data,
    num_boost_round=5,
    init_model=first,
    valid_sets=[valid_data],
    callbacks=[
        lgb.reset_parameter(learning_rate=lambda i: 0.05 * 0.99**i),
        lgb.record_evaluation(history),
    ],
)
print("held-out loss after 15 rounds:", round(history["valid_0"]["multi_logloss"][-1], 4))


def softmax_objective(scores: Any, data: Any) -> tuple[Any, Any]:
    """The multinomial loss, with the diagonal of its Hessian."""
    label = data.get_label().astype(int)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p - np.eye(3)[label], p * (1.0 - p)


def error_rate(scores: Any, data: Any) -> tuple[str, float, bool]:
    wrong = np.argmax(scores, axis=1) != data.get_label()
    return "error rate", float(wrong.mean()), False


own = lgb.train(
    {**params, "objective": softmax_objective, "lambda_l2": 1.0},
    train_data,
    num_boost_round=10,
    valid_sets=[valid_data],
    feval=error_rate,
    callbacks=[lgb.record_evaluation(history)],
)
print("error rate with one's own objective:", round(history["valid_0"]["error rate"][-1], 4))

folds = lgb.cv(params, lgb.Dataset(frame, label=target), num_boost_round=10, nfold=3)
print("cross-validated loss:", round(folds["valid multi_logloss-mean"][-1], 4))

again = pickle.loads(pickle.dumps(second))
print("pickled model is the same:", np.array_equal(again.predict(frame), second.predict(frame)))
print("features:", second.feature_name(), "importances:", second.feature_importance().tolist())
print("trees in the dump:", len(json.loads(json.dumps(second.dump_model()))["tree_info"]))
