"""The two experiments that take minutes: their rows, and the commands that compute all of them.

``python -m companion.experiments.propagation`` and ``python -m companion.experiments.text``
write the result files that Chapter 5 reads (``make sweep`` runs both). The chapter recomputes a
row live.
"""
