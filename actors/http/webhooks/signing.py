"""Signatures by Standard Webhooks (standardwebhooks.com), which prove who has sent a request and that nobody has changed it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Any

from ray_pubsub.errors import SettingError

__all__ = ["check_secret", "new_secret", "signature"]

PREFIX = "whsec_"
SHORTEST, LONGEST = 24, 64
"""The length of a key in bytes, by the specification."""


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def check_secret(secret: Any) -> str:
    """Returns the secret if it is valid. Raises SettingError otherwise."""
    try:
        if not isinstance(secret, str) or not secret.startswith(PREFIX):
            raise ValueError
        if not SHORTEST <= len(base64.b64decode(secret.removeprefix(PREFIX), validate=True)) <= LONGEST:
            raise ValueError
    except (ValueError, binascii.Error):
        raise SettingError(
            "secret", f"must be {PREFIX} and {SHORTEST} to {LONGEST} bytes in base64; leave it out for a new one"
        ) from None
    return secret


def signature(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Returns the value of the header webhook-signature.

    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
