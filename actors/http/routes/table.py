"""The table of all paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.http.openapi import document
from actors.http.requests import Request, Response
from actors.http.route import Route
from actors.http.routes import administering, consuming, looking_in, publishing, subscribing
from actors.http.routes.publishing import NDJSON, PUBLISHED

if TYPE_CHECKING:
    from actors.http.application import Application

__all__ = ["ROUTES"]

OBJECT = ("application/json", "application/msgpack")
TEXT = "string"
WHOLE, NUMBER, FLAG = "integer", "number", "boolean"
RECEIPTS = {"receipts": "the receipts of deliveries"}
CARRIED = {
    "data": "a small JSON value that comes back with matches and deliveries on request",
    "tags": "texts to select by",
}
OF_SUBSCRIBER = "/v1/subscribers/{subscriber}"


async def _openapi(app: Application, request: Request) -> Response:
    return Response(document(ROUTES))


ROUTES: tuple[Route, ...] = (
    Route(
        "POST", "/v1/events", publishing.publish, "publish",
        "Publishes one event or many. The header Idempotency-Key makes a repetition harmless.",
        (
            ("event_id", TEXT, "the attribute that holds the events' ids; an id published before is not delivered again"),
            ("deliver", FLAG, "false: only matches"),
            ("strict", FLAG, "true: an event with a value that cannot be used is a bad event; else only that attribute is left out"),
            ("matches", FLAG, "true: the answer has the matches of every event; needs the scope read too"),
            ("data", FLAG, "true: with the data and tags of the subscriptions that match"),
        ),
        PUBLISHED, answer="how many events, matches, deliveries; bad events and left out attributes by position", schema="PublishReport",
    ),
    Route(
        "GET", "/v1/subscriptions", subscribing.list_subscriptions, "subscribe",
        "Lists subscriptions, page by page; those of all subscribers need the scope read.",
        (
            ("subscriber", TEXT, "of this one only"), ("tag", TEXT, "that have this tag"),
            ("search", TEXT, "that contain this text, in an id, subscriber, expression, tag or their data"),
            ("after", WHOLE, "of the page before"), ("limit", WHOLE, "on a page, up to 1000"),
        ), schema="Subscriptions",
    ),
    Route(
        "POST", "/v1/subscriptions", subscribing.subscribe, "subscribe", "Adds a subscription.", (), OBJECT,
        {"subscriber": "whose it is", "expression": "what it asks for", "id": "its id; made if it is not given", **CARRIED},
        schema="Subscribed", statuses=(201,),
    ),
    Route(
        "DELETE", "/v1/subscriptions", subscribing.unsubscribe_tagged, "subscribe",
        "Removes all subscriptions that have a tag. Needs the scope subscribe:* or admin.", (("tag", TEXT, "which"),), schema="Removed",
    ),
    Route(
        "POST", "/v1/subscriptions/bulk", subscribing.load, "subscribe",
        "Loads subscriptions, one in each line, and reports the lines that were rejected. Needs the scope subscribe:* or admin.",
        (), NDJSON[:1], {"id": "", "subscriber": "", "expression": "", **CARRIED}, schema="LoadReport",
    ),
    Route(
        "GET", "/v1/subscriptions/{id}", subscribing.get_subscription, "subscribe", "One subscription. int:7 is the id 7.",
        schema="Subscription",
    ),
    Route(
        "PUT", "/v1/subscriptions/{id}", subscribing.put_subscription, "subscribe", "Adds or replaces a subscription.", (),
        OBJECT, {"subscriber": "whose it is", "expression": "what it asks for", **CARRIED}, schema="Subscribed", statuses=(201,),
    ),
    Route("DELETE", "/v1/subscriptions/{id}", subscribing.unsubscribe, "subscribe", "Removes a subscription.", schema="Removed"),
    Route(
        "POST", "/v1/expressions/check", subscribing.check_expression, "subscribe",
        "Whether an expression can be used; if not, the error has the position.", (), OBJECT, {"expression": "the text"},
    ),
    Route("GET", "/v1/rules", subscribing.list_rules, "read", "All priority rules."),
    Route(
        "PUT", "/v1/rules/{id}", subscribing.add_rule, "admin", "Adds or replaces a priority rule.", (), OBJECT,
        {"level": "at least this level", "expression": "for events that match it"}, statuses=(201,),
    ),
    Route("DELETE", "/v1/rules/{id}", subscribing.remove_rule, "admin", "Removes a priority rule.", schema="Removed"),
    Route(
        "DELETE", OF_SUBSCRIBER, subscribing.remove_subscriber, "subscribe",
        "Removes all subscriptions of a subscriber, and its mailbox.", schema="Removed",
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/poll", consuming.poll, "subscribe",
        "Deliveries, the most urgent first. If none waits and nobody has subscribed under this name, the answer has a warning.",
        (
            ("limit", WHOLE, "at most this number"), ("wait", NUMBER, "seconds to wait for the first, up to 60"),
            ("visibility_timeout", NUMBER, "seconds until what is not acknowledged comes again"),
            ("data", FLAG, "true: with the data and tags of the subscriptions"),
        ), schema="Deliveries",
    ),
    Route(
        "GET", f"{OF_SUBSCRIBER}/stream", consuming.stream, "subscribe",
        "Deliveries as server-sent events. The id of a message is the delivery's sequence. ack=auto: what was sent is acknowledged some "
        "seconds later if the connection is still open. Last-Event-ID acknowledges what the last stream sent up to that message, and "
        "what it sent after it comes again at once. A comment warns of a name under which nobody has subscribed.",
        (("ack", TEXT, "auto or manual"), ("window", WHOLE, "deliveries that may be unacknowledged"),
         ("data", FLAG, "true: with the data and tags of the subscriptions")),
        answer="an endless stream", answer_kind="text/event-stream",
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/ack", consuming.settling("ack"), "subscribe", "These are done.", (), OBJECT, RECEIPTS,
        schema="AckReport",
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/nack", consuming.settling("nack"), "subscribe", "These failed, and come again.", (), OBJECT,
        {**RECEIPTS, "delay": "seconds before they come again", "reason": "for dead letters"}, schema="AckReport",
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/release", consuming.settling("release"), "subscribe",
        "These were not looked at: they come again, and it was no attempt.", (), OBJECT, RECEIPTS, schema="AckReport",
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/extend", consuming.settling("extend"), "subscribe", "These take longer.", (), OBJECT,
        {**RECEIPTS, "seconds": "from now"}, schema="AckReport",
    ),
    Route("GET", f"{OF_SUBSCRIBER}/mailbox", consuming.mailbox, "subscribe", "The mailbox in numbers."),
    Route(
        "GET", f"{OF_SUBSCRIBER}/dead-letters", consuming.dead_letters, "subscribe", "What failed for good, oldest first.",
        (("limit", WHOLE, "at most this number"),),
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/dead-letters/redrive", consuming.redrive, "subscribe",
        "Dead letters are delivered again.", (), OBJECT, {"sequences": "which; all if they are not given"},
    ),
    Route(
        "POST", f"{OF_SUBSCRIBER}/dead-letters/purge", consuming.purge, "subscribe", "Dead letters are removed.", (), OBJECT,
        {"sequences": "which; all if they are not given"},
    ),
    Route("GET", "/v1/webhooks", administering.list_webhooks, "subscribe", "Webhooks, and how they fare."),
    Route("GET", "/v1/webhooks/{id}", administering.get_webhook, "subscribe", "One webhook."),
    Route(
        "PUT", "/v1/webhooks/{id}", administering.put_webhook, "subscribe",
        "Deliveries of a subscriber are sent to a URL, signed as Standard Webhooks.", (), OBJECT,
        {
            "subscriber": "whose deliveries", "url": "where to", "secret": "whsec_…; made if it is not given",
            "concurrency": "requests at once", "data": "true: with the data and tags of the subscriptions",
            "enabled": "false: nothing is sent",
        }, statuses=(201, 200),
    ),
    Route("DELETE", "/v1/webhooks/{id}", administering.remove_webhook, "subscribe", "Removes a webhook.", schema="Removed"),
    Route("GET", "/v1/tokens", administering.list_tokens, "admin", "The clients and their scopes."),
    Route(
        "PUT", "/v1/tokens/{name}", administering.put_token, "admin", "Makes a token for a client.", (), OBJECT,
        {"scopes": "publish, subscribe:NAME, read, admin"}, statuses=(201,),
    ),
    Route(
        "DELETE", "/v1/tokens/{name}", administering.remove_token, "admin", "The client's token is no longer accepted.",
        schema="Removed",
    ),
    Route(
        "POST", "/v1/explain", looking_in.explain, "read", "What matches an event, and how; or why one subscription does or does not.",
        (), OBJECT, {"event": "an event", "id": "of a subscription", "expression": "instead of a subscription"},
    ),
    Route(
        "POST", "/v1/backtest", looking_in.run_backtest, "read", "How often an expression would have matched the last events.", (),
        OBJECT, {"expression": "a draft"},
    ),
    Route("GET", "/v1/stats", looking_in.stats, "read", "All processes of the server in numbers.", schema="Stats"),
    Route("GET", "/metrics", looking_in.metrics, "read", "The same for Prometheus.", answer_kind="text/plain"),
    Route("GET", "/healthz", looking_in.health, None, "The HTTP process answers."),
    Route("GET", "/readyz", looking_in.readiness, None, "The server is connected and answers; 503 if not."),
    Route("GET", "/openapi.json", _openapi, None, "This description."),
    Route("GET", "/", looking_in.console, None, "The web console.", answer_kind="text/html"),
    Route("GET", "/console/{file}", looking_in.console_file, None, "Its parts.", answer_kind="text/html"),
)  # fmt: skip
