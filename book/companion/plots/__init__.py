"""Figures in one style; what imports matplotlib and, where controls are shown, ipywidgets.

Every function takes named data, draws one figure and returns a :class:`Picture`, which shows itself
as a PNG and carries its data: ``figure.data`` is what it was given as CSV. Colours and line styles
mean the same thing throughout the book: see ``ROLES``.
"""

from companion.plots.assumptions import curvature_shares, derivative_bounds, profile_runs
from companion.plots.charts import attention_maps, curves, rates
from companion.plots.circle import angle_histograms, angle_paths, energy_and_ring, planar_orbits
from companion.plots.discussion import phase_space, support_values
from companion.plots.dynamics import bound_cloud, grid_map, panels, particles
from companion.plots.explore import explorable
from companion.plots.extremal import circle_minimiser, landscapes, splitting
from companion.plots.frames import frames
from companion.plots.introduction import heads_at_work, two_starts
from companion.plots.localisation import atoms_on_circle
from companion.plots.long_time import imbalance
from companion.plots.model import head_view, hessian_blocks, prediction_map, sensitivity
from companion.plots.picture import Picture, drawing
from companion.plots.primer import network_view, two_interpolations, two_ways
from companion.plots.scaling import count_panels, mass_panels
from companion.plots.spheres import sphere_histograms
from companion.plots.stability import cloud, phase_diagram, regimes, verdicts
from companion.plots.static import excess_distribution, excess_rates
from companion.plots.style import ROLES, Role, new_figure
from companion.plots.tokens import (
    blow_up,
    mirror,
    scores_and_weights,
    tokens_on_circle,
    tokens_on_sphere,
)
from companion.plots.try_it import try_it

__all__ = [
    "ROLES", "Picture", "Role", "angle_histograms", "angle_paths", "atoms_on_circle",
    "attention_maps", "blow_up", "bound_cloud", "circle_minimiser", "cloud", "count_panels",
    "curvature_shares", "curves", "derivative_bounds", "drawing", "energy_and_ring",
    "excess_distribution", "excess_rates", "explorable", "frames", "grid_map", "head_view",
    "heads_at_work", "hessian_blocks", "imbalance", "landscapes", "mass_panels", "mirror",
    "network_view", "new_figure", "panels", "particles", "phase_diagram", "phase_space",
    "planar_orbits", "prediction_map", "profile_runs", "rates", "regimes", "scores_and_weights",
    "sensitivity", "sphere_histograms", "splitting", "support_values", "tokens_on_circle",
    "tokens_on_sphere", "try_it", "two_interpolations", "two_starts", "two_ways", "verdicts",
]  # fmt: skip
