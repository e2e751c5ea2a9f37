# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # fullhess for users of XGBoost
#
# One import line changes. Data, parameters, callbacks and models stay XGBoost's; what is new is
# the tree: one a round, with a vector in every leaf, split and solved by the true Hessian.

# %%
import os

import numpy as np
import xgboost
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import fullhess.xgboost as xgb  # instead of: import xgboost as xgb

ROUNDS = int(os.environ.get("NOTEBOOK_ROUNDS", "60"))

X, y = load_digits(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, stratify=y, random_state=0)

# %% [markdown]
# ## Training
#
# The same call with both, and the same settings.

# %%
params = {
    "objective": "multi:softprob",
    "num_class": 10,
    "learning_rate": 0.3,
    "max_depth": 4,
    "min_child_weight": 0.001,
    "eval_metric": "mlogloss",
    "nthread": 1,
}
history: dict[str, dict[str, dict[str, list[float]]]] = {}
for name, library in (("fullhess", xgb), ("XGBoost", xgboost)):
    train = library.QuantileDMatrix(X_train, label=y_train)
    valid = library.QuantileDMatrix(X_valid, label=y_valid, ref=train)
    own = {} if library is xgb else {"multi_strategy": "multi_output_tree"}
    history[name] = {}
    booster = library.train(
        {**params, **own},
        train,
        num_boost_round=ROUNDS,
        evals=[(train, "train"), (valid, "valid")],
        evals_result=history[name],
        verbose_eval=False,
    )
    loss = history[name]["valid"]["mlogloss"]
    print(f"{name:<9} validation loss {min(loss):.4f} in round {int(np.argmin(loss)) + 1}")

# %% [markdown]
# With the defaults of fullhess the training loss cannot rise, at any learning rate up to 1.

# %%
train_loss = np.array(history["fullhess"]["train"]["mlogloss"])
print("training loss never rises:", bool((np.diff(train_loss) <= 1e-6).all()))

# %% [markdown]
# ## scikit-learn estimators
#
# The new parameters have good defaults. By default λ pulls a leaf to its parent; with
# `leaf_prior="ridge"` it pulls to zero, as everywhere else.

# %%
for prior in ("ridge", "path"):
    model = xgb.XGBClassifier(
        n_estimators=ROUNDS, learning_rate=0.2, max_depth=4, leaf_prior=prior,
        early_stopping_rounds=10,
    )  # fmt: skip
    model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)], verbose=False)
    print(f"{prior}: validation loss {log_loss(y_valid, model.predict_proba(X_valid)):.4f}")

# %% [markdown]
# ## The model is XGBoost's
#
# It is saved in XGBoost's format, and loads without fullhess.

# %%
raw = model.get_booster().save_raw("json")
plain = xgboost.Booster()
plain.load_model(bytearray(raw))
same = np.array_equal(
    plain.predict(xgboost.DMatrix(X_valid), output_margin=True),
    model.get_booster().predict(xgboost.DMatrix(X_valid), output_margin=True),
)
print("XGBoost alone predicts the same:", same)
