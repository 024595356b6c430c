"""The identity of a broker, from `node.id`, the data folder or the address."""

from __future__ import annotations

from sharebroker_protocol.errors import ErrorCode, KafkaError
from sharebroker_server.broker.settings import ServeSettings
from sharebroker_server.leases.identity import Identity, at_address, persistent, temporary


def node_identity(settings: ServeSettings, address: str) -> Identity:
    """Returns the identity by `node.id`, else that of the data folder, else one derived from the address.

    In each case a restarted broker claims the leases of its former process at once. Raises INVALID_CONFIG.
    """
    node_id = settings.config.node_id if settings.config.node_id >= 0 else None
    if settings.redis is not None:
        return at_address(address) if node_id is None else temporary(node_id)
    try:
        return persistent(settings.data / "node.json", node_id, settings.config.cluster_id)
    except (OSError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
