"""Columns of categories in a DataFrame."""

import numpy as np
import pandas as pd

import fullhess.xgboost as xgb

generator = np.random.default_rng(0)
colours = ["red", "green", "blue", "grey", "black", "white"]
frame = pd.DataFrame(
    {
        "colour": pd.Categorical(generator.choice(colours, 600), categories=colours),
        "size": generator.normal(size=600),
    }
)
y = frame["colour"].cat.codes.to_numpy() % 3
y = np.where(frame["size"] > 1.5, 0, y)

model = xgb.XGBClassifier(n_estimators=20, enable_categorical=True)
model.fit(frame[:400], y[:400])
print("accuracy above 0.95:", model.score(frame[400:], y[400:]) > 0.95)

# The same values, the categories in another order: matched by name.
other = frame.assign(colour=frame["colour"].cat.reorder_categories(colours[::-1]))
print("same predictions:", (model.predict(other) == model.predict(frame)).all())
