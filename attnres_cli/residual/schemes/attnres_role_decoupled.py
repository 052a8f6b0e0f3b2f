"""Role-decoupled Attention Residuals: attention's queries and keys look at one mixture of the sources, its values at
another."""

from __future__ import annotations

from typing import Literal

from attnres_cli.residual.block_sums import BlockConfig, BlockSums
from attnres_cli.residual.depth_query import DepthQuery
from attnres_cli.residual.parameters import Places
from attnres_cli.residual.protocol import Cost, Geometry, Site, State, SublayerInput


class Config(BlockConfig):
    """[residual] scheme = "attnres-role-decoupled". block_sublayers = 1 makes every sublayer a source."""

    scheme: Literal["attnres-role-decoupled"] = "attnres-role-decoupled"


class Scheme(BlockSums):
    """One more query (and key gain) per attention sublayer. Both mixtures go through that sublayer's one norm; the
    feed-forward and the output have one route, as ever. The fused q, k, v matrix is sliced by its rows."""

    fuses = False
    belongs_to_sublayers = ("sites", "value_sites")
    citation = "Role-Decoupled Attention Residuals, arXiv 2608.01075"
    formula = "h_l^qk and h_l^v, each Σ_n softmax_n(w_l · RMSNorm(b_n)) b_n with a w_l of its own"

    def __init__(self, config: Config, geometry: Geometry) -> None:
        super().__init__(config, geometry)
        self.value_sites = Places(
            DepthQuery(config, geometry.d_model, len(self.source_names(ordinal)))
            for ordinal in range(0, geometry.num_sublayers, 2)
        )

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        x = site.norm(self._mixed(state, site.ordinal))
        if site.kind != "attention" or not self.chooses(site.ordinal):
            return x, state
        route = self.value_sites.at(site.layer)
        assert isinstance(route, DepthQuery)
        return {"q": x, "k": x, "v": site.norm(self._mixed_by(state, route, site.ordinal))}, state

    def dead_parameters(self) -> dict[str, str]:
        attention = range(0, self.geometry.num_sublayers, 2)
        return super().dead_parameters() | self._dead_at(self.value_sites, "value_sites", attention)

    def cost(self) -> Cost:
        """The other scheme's, and one more mixture and norm (4 d) per attention sublayer that has a choice."""
        base = super().cost()
        counts = [len(self.source_names(ordinal)) for ordinal in range(0, self.geometry.num_sublayers, 2)]
        routes = [self.mixing_flops(count) + 4.0 * self.geometry.d_model for count in counts if count > 1]
        return Cost(base.parameters, base.forward_flops_per_token + sum(routes), base.live_elements_per_token)
