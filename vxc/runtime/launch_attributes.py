"""What a launch asks of the driver beside its sizes (CUDA driver API, `CUlaunchAttributeID`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def launch_attributes(bindings: Any, cluster: Sequence[int], early: bool) -> list[Any]:
    """`cluster`: blocks a cluster along x, y and z. `early`: programmatic dependent launch, see `Driver.launch_config`."""
    kinds, made = bindings.CUlaunchAttributeID, []
    if tuple(cluster) != (1, 1, 1):
        attribute = bindings.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster
        made.append(attribute)
    if early:
        attribute = bindings.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        made.append(attribute)
    return made
