"""The configuration of a webhook: the subscriber, the URL, and how its deliveries are sent."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from actors.http.webhooks.signing import check_secret, new_secret
from actors.http.webhooks.target_address import target_of
from ray_pubsub.errors import SettingError
from ray_pubsub.model.arguments import check_name, check_whole

__all__ = ["Webhook", "webhook_of"]

LONGEST_ID, LONGEST_URL = 100, 2000
MOST_CONCURRENT = 64


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook as it is stored: whose deliveries are sent where."""

    id: str
    subscriber: str
    url: str
    secret: str
    concurrency: int = 4
    """The most requests in flight at once."""
    data: bool = False
    """Whether requests have the data and tags of the subscriptions."""
    enabled: bool = True
    disabled_reason: str | None = None

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def shown(self) -> dict[str, Any]:
        """Returns the webhook without the secret, which is shown once, when it is generated."""
        return {name: value for name, value in asdict(self).items() if name != "secret"}

    def disabled(self, reason: str) -> Webhook:
        return replace(self, enabled=False, disabled_reason=reason)


def webhook_of(id: str, given: dict[str, Any], before: Webhook | None = None) -> Webhook:
    """Returns a webhook from a client's fields. Raises SettingError. A secret that is not given stays, or is generated."""
    unknown = set(given) - {"subscriber", "url", "secret", "concurrency", "data", "enabled", "id", "disabled_reason"}
    if unknown:
        raise SettingError(", ".join(sorted(unknown)), "is no setting of a webhook")
    if not isinstance(id, str) or not 0 < len(id) <= LONGEST_ID or not id.isprintable():
        raise SettingError("id", f"must be a printable text of 1 to {LONGEST_ID} characters")
    subscriber, url = given.get("subscriber"), given.get("url")
    check_name("subscriber", subscriber)
    target_of(url)
    if len(str(url)) > LONGEST_URL:
        raise SettingError("url", f"must have at most {LONGEST_URL} characters")
    enabled, data = given.get("enabled", True), given.get("data", False)
    for name, value in (("enabled", enabled), ("data", data)):
        if not isinstance(value, bool):
            raise SettingError(name, "must be true or false")
    secret = given.get("secret")
    if secret is None:
        secret = new_secret() if before is None else before.secret
    concurrency = check_whole("concurrency", given.get("concurrency", 4), 1, MOST_CONCURRENT)
    return Webhook(id, str(subscriber), str(url), check_secret(secret), concurrency, data, enabled)
