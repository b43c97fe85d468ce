"""The experiments that take minutes to hours: their rows, and the commands that compute them all.

``python -m companion.experiments.propagation``, ``text``, ``sphere`` and ``cascade`` write the
result files that chapters read (``make sweep`` runs all four). A chapter computes a row again.
"""
