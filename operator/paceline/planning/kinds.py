"""The kinds the operator reads or writes, each said once: address, and whether we keep a watch on it."""

from dataclasses import dataclass
from typing import Final

from paceline.api import base


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One API resource."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def path(self) -> str:
        """``/api/v1`` or ``/apis/GROUP/VERSION``."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


SPECULATIVE_DEPLOYMENT: Final = Kind(
    api_version=base.API_VERSION, kind="SpeculativeDeployment", plural="speculativedeployments"
)
DRAFT_TRAINING_JOB: Final = Kind(api_version=base.API_VERSION, kind="DraftTrainingJob", plural="drafttrainingjobs")
DEPLOYMENT: Final = Kind(api_version="apps/v1", kind="Deployment", plural="deployments")
REPLICA_SET: Final = Kind(api_version="apps/v1", kind="ReplicaSet", plural="replicasets")
CONTROLLER_REVISION: Final = Kind(api_version="apps/v1", kind="ControllerRevision", plural="controllerrevisions")
JOB: Final = Kind(api_version="batch/v1", kind="Job", plural="jobs")
POD: Final = Kind(api_version="v1", kind="Pod", plural="pods")
SERVICE: Final = Kind(api_version="v1", kind="Service", plural="services")
CONFIG_MAP: Final = Kind(api_version="v1", kind="ConfigMap", plural="configmaps")
# Watched in the whole cluster, for the forecast of free devices only.
NODE: Final = Kind(api_version="v1", kind="Node", plural="nodes", namespaced=False)
# Likewise: of a volume that one node holds alone, the devices of others are of no use.
PERSISTENT_VOLUME_CLAIM: Final = Kind(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims")
POD_DISRUPTION_BUDGET: Final = Kind(api_version="policy/v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets")
HTTP_ROUTE: Final = Kind(api_version="gateway.networking.k8s.io/v1", kind="HTTPRoute", plural="httproutes")
ENDPOINT_SLICE: Final = Kind(api_version="discovery.k8s.io/v1", kind="EndpointSlice", plural="endpointslices")

OURS: Final = (SPECULATIVE_DEPLOYMENT, DRAFT_TRAINING_JOB)
# Watched through our own cache, narrowed to objects that carry our managed-by label.
CHILDREN: Final = (DEPLOYMENT, CONTROLLER_REVISION, JOB, POD, SERVICE, CONFIG_MAP, POD_DISRUPTION_BUDGET)
# Other people's objects, which the cluster may not have, nor the operator be allowed to see.
FOREIGN: Final = (HTTP_ROUTE,)
BY_KIND: Final = {kind.kind: kind for kind in (*OURS, *CHILDREN, *FOREIGN, REPLICA_SET, ENDPOINT_SLICE)}
