r"""Functionals on measures: the one idea of the package.

A functional :math:`F` on probability measures has a first variation :math:`\delta F/\delta\mu`,

.. math:: \frac{d}{ds}F\big((1-s)\mu+s\nu\big)\Big|_{s=0}=\int\frac{\delta F}{\delta\mu}(x;\mu)\,
          d(\nu-\mu)(x),

and the Wasserstein gradient flow of :math:`F` moves every atom along
:math:`-\nabla_x\,\delta F/\delta\mu`. To add a model, write one class with a method ``at(mu)`` that
returns an object with ``value``, ``first_variation(x)`` and ``gradient(x)``. Whatever needs the
measure only once (for attention heads: the logits and the residual) is computed in ``at``.
"""

from mfbook.functional.check import FunctionalCheck, check_functional
from mfbook.functional.functional import Combination, Functional
from mfbook.functional.protocols import Centred, Linearisable, Local, Minimisable, Minimum

__all__ = [
    "Centred",
    "Combination",
    "Functional",
    "FunctionalCheck",
    "Linearisable",
    "Local",
    "Minimisable",
    "Minimum",
    "check_functional",
]
