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
# # fullhess for users of LightGBM
#
# One import line changes. LightGBM grows one tree a class in every round, each with a curvature of
# its own; fullhess grows one tree with a vector in every leaf, by the true Hessian.

# %%
import os

import lightgbm
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import fullhess.lightgbm as lgb  # instead of: import lightgbm as lgb

ROUNDS = int(os.environ.get("NOTEBOOK_ROUNDS", "60"))

X, y = load_digits(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, stratify=y, random_state=0)

# %% [markdown]
# ## Training
#
# The same call with both, and the same settings.

# %%
params = {
    "objective": "multiclass",
    "num_class": 10,
    "learning_rate": 0.2,
    "num_leaves": 15,
    "min_data_in_leaf": 5,
    "lambda_l2": 1.0,
    "num_threads": 1,
    "verbosity": -1,
}
for name, library in (("fullhess", lgb), ("LightGBM", lightgbm)):
    train = library.Dataset(X_train, label=y_train)
    valid = library.Dataset(X_valid, label=y_valid, reference=train)
    history: dict[str, dict[str, list[float]]] = {}
    booster = library.train(
        params,
        train,
        num_boost_round=ROUNDS,
        valid_sets=[valid],
        valid_names=["valid"],
        callbacks=[library.record_evaluation(history)],
    )
    loss = history["valid"]["multi_logloss"]
    print(f"{name:<9} validation loss {min(loss):.4f} in round {int(np.argmin(loss)) + 1}")

# %% [markdown]
# ## scikit-learn estimators

# %%
model = lgb.LGBMClassifier(n_estimators=ROUNDS, learning_rate=0.2, num_leaves=15, verbosity=-1)
model.fit(X_train, y_train)
print(f"error on held-out rows: {100 * np.mean(model.predict(X_valid) != y_valid):.1f} %")

# %% [markdown]
# ## The model is LightGBM's
#
# It is saved as LightGBM's text, and loads without fullhess.

# %%
text = model.booster_.model_to_string()
plain = lightgbm.Booster(model_str=text)
same = np.allclose(plain.predict(X_valid), model.predict_proba(X_valid), rtol=0, atol=1e-12)
print("LightGBM alone predicts the same:", same)
