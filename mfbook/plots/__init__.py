"""Figures in one style; the only package that imports matplotlib (and, on request, ipywidgets).

Every function takes named data, draws one figure and returns a :class:`Picture`, which shows itself
as a PNG. Colours and line styles mean the same thing throughout the book: see ``ROLES``.
"""

from .assumptions import curvature_shares, derivative_bounds, profile_runs
from .charts import attention_maps, curves, rates, scatter
from .circle import angle_histograms, angle_paths, energy_and_ring, planar_orbits
from .discussion import phase_space, predictors, support_values
from .dynamics import bound_cloud, grid_map, panels, particles
from .extremal import circle_minimiser, gap_cloud, landscapes, splitting, stalled
from .frames import frames
from .localisation import atoms_on_circle
from .long_time import imbalance
from .model import head_view, hessian_blocks, prediction_map, sensitivity, two_paths
from .scaling import cluster_bounds, count_bars, count_panels, mass_panels, merging_clock
from .spheres import cluster_counts, sphere_histograms, sphere_scene
from .stability import cloud, phase_diagram, regimes, verdicts
from .static import boosting_rounds, excess_distribution, excess_rates
from .style import ROLES, Picture, Role, drawing, new_figure

__all__ = [
    "ROLES",
    "Picture",
    "Role",
    "angle_histograms",
    "angle_paths",
    "atoms_on_circle",
    "attention_maps",
    "boosting_rounds",
    "bound_cloud",
    "circle_minimiser",
    "cloud",
    "cluster_bounds",
    "cluster_counts",
    "count_bars",
    "count_panels",
    "curvature_shares",
    "curves",
    "derivative_bounds",
    "drawing",
    "energy_and_ring",
    "excess_distribution",
    "excess_rates",
    "frames",
    "gap_cloud",
    "grid_map",
    "head_view",
    "hessian_blocks",
    "imbalance",
    "landscapes",
    "mass_panels",
    "merging_clock",
    "new_figure",
    "panels",
    "particles",
    "phase_diagram",
    "phase_space",
    "planar_orbits",
    "prediction_map",
    "predictors",
    "profile_runs",
    "rates",
    "regimes",
    "scatter",
    "sensitivity",
    "sphere_histograms",
    "sphere_scene",
    "splitting",
    "stalled",
    "support_values",
    "two_paths",
    "verdicts",
]
