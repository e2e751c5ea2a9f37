"""XGBoost on one side, the fullhess engine on the other.

This package holds the translation between the two: XGBoost's parameter names,
its data and cut points on the way in, its booster and model format on the way
out. It contains no kernel; everything numeric happens in ``fullhess``.
"""
