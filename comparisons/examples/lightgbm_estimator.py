"""The classifier in scikit-learn's tools."""

from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

import fullhess.lightgbm as lgb

X, y = load_wine(return_X_y=True, as_frame=True)
names = y.map({0: "first", 1: "second", 2: "third"})
X_train, X_valid, y_train, y_valid = train_test_split(X, names, random_state=0, stratify=names)

model = lgb.LGBMClassifier(n_estimators=30, num_leaves=5, min_child_samples=5, verbose=-1)
model.fit(
    X_train,
    y_train,
    eval_set=[(X_valid, y_valid)],
    eval_metric="multi_error",
    callbacks=[lgb.early_stopping(8, verbose=False)],
)
print(
    "best iteration:", model.best_iteration_, "accuracy:", round(model.score(X_valid, y_valid), 3)
)

search = GridSearchCV(
    lgb.LGBMClassifier(n_estimators=8, min_child_samples=5, class_weight="balanced", verbose=-1),
    {"learning_rate": [0.1, 0.3], "num_leaves": [3, 5]},
    cv=3,
)
search.fit(X_train, y_train)
print("best of the grid:", search.best_params_)
print("cross-validation:", cross_val_score(search.best_estimator_, X, names, cv=3).round(3))
print("importance of", model.feature_name_[0], "is", int(model.feature_importances_[0]))
