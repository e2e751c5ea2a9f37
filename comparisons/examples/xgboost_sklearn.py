"""The scikit-learn interface: fit, search, pipelines, pickles."""

import pickle

from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fullhess.xgboost as xgb

X, y = load_wine(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, random_state=0, stratify=y)

model = xgb.XGBClassifier(
    n_estimators=50,
    max_depth=3,
    learning_rate=0.3,
    early_stopping_rounds=5,
    eval_metric="mlogloss",
)
model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)], verbose=False)
print("accuracy above 0.9:", model.score(X_valid, y_valid) > 0.9)
print("metrics:", list(model.evals_result()["validation_0"]))
print("importances:", model.feature_importances_.shape)

again = pickle.loads(pickle.dumps(model))
print("pickled model predicts the same:", (again.predict(X) == model.predict(X)).all())

search = GridSearchCV(xgb.XGBClassifier(n_estimators=10), {"max_depth": [2, 3]}, cv=3)
search.fit(X, y)
print("searched:", sorted(search.best_params_))

pipeline = make_pipeline(StandardScaler(), xgb.XGBClassifier(n_estimators=10))
print("cross-validated above 0.85:", cross_val_score(pipeline, X, y, cv=3).mean() > 0.85)
