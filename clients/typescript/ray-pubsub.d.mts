// Types of ray-pubsub.mjs.

export type Id = string | number;
export type Event = Record<string, unknown>;

export interface Subscription {
  id: Id;
  subscriber: string;
  expression: string;
  /** A small JSON value. */
  data?: unknown;
  tags?: string[];
}

export interface Delivery {
  subscriber: string;
  sequence: number;
  subscription_id: Id;
  event: Event | null;
  /** A number that JavaScript would round, as the server's own are, is a string of its digits. */
  event_id: Id;
  priority: string;
  attempt: number;
  receipt: string;
  enqueued: number;
  deadline: number | null;
  visible_until: number;
  /** Of the subscription, if polled or streamed with `withData`. */
  data?: unknown;
  tags?: string[];
}

export interface DeadLetter {
  subscriber: string;
  sequence: number;
  subscription_id: Id;
  event: Event | null;
  attempts: number;
  reason: string;
  died: number;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  position?: number;
  expected?: string[];
  [field: string]: unknown;
}

export interface PublishReport {
  events: number;
  matches: number;
  bad_events: number;
  deliveries?: {
    delivered: number;
    duplicates: number;
    dead: number;
    dropped: number;
    rejected: number;
    rejected_subscribers: string[];
  };
  errors?: Problem[];
  /** Attributes that were left out because their values cannot be used; the first hundred. */
  warnings?: { position: number; attribute: string; reason: string }[];
  warning_count?: number;
  /** What now() stood for in all events, in microseconds since 1970. */
  moment?: number;
  /** If asked for with `matches` or `withData`; with the latter each match has `data` and `tags`. */
  results?: {
    event_id: Id;
    priority: string;
    matches: { id: Id; subscriber: string; data?: unknown; tags?: string[] }[];
  }[];
}

export interface LoadReport {
  added: number;
  rejected: number;
  lines: number;
  rejections: { position: number; id: Id | null; error: Problem }[];
}

export interface AckReport {
  accepted: number;
  stale: { position: number; receipt: string; reason: string }[];
}

export declare class ProblemError extends Error {
  readonly document: Problem;
  readonly status: number;
  readonly kind: string;
  readonly position?: number;
}

export declare class PubSubClient {
  /** `warn` is told when a subscriber is polled that nobody has subscribed as; console.warn if it is not given. */
  constructor(url: string, options?: { token?: string; patience?: number; warn?: (text: string) => void });
  subscribe(subscriber: string, expression: string, options?: { id?: Id; data?: unknown; tags?: string[] }): Promise<Id>;
  unsubscribe(id: Id): Promise<boolean>;
  /** Removes all subscriptions that have this tag, of all subscribers; how many there were. */
  unsubscribeMany(options: { tag: string }): Promise<number>;
  subscription(id: Id): Promise<Subscription>;
  subscriptions(options?: { subscriber?: string; search?: string; tag?: string }): AsyncGenerator<Subscription>;
  load(subscriptions: Iterable<Subscription>): Promise<LoadReport>;
  check(expression: string): Promise<void>;
  publish(
    events: Event | Event[],
    options?: {
      eventId?: string;
      deliver?: boolean;
      strict?: boolean;
      matches?: boolean;
      withData?: boolean;
      idempotencyKey?: string;
    },
  ): Promise<PublishReport>;
  poll(
    subscriber: string,
    options?: { limit?: number; wait?: number; visibilityTimeout?: number; withData?: boolean },
  ): Promise<Delivery[]>;
  stream(
    subscriber: string,
    options?: { ack?: "auto" | "manual"; lastEventId?: number; withData?: boolean; signal?: AbortSignal },
  ): AsyncGenerator<Delivery>;
  ack(deliveries: Delivery | Delivery[]): Promise<AckReport>;
  nack(deliveries: Delivery | Delivery[], options?: { delay?: number; reason?: string }): Promise<AckReport>;
  release(deliveries: Delivery | Delivery[]): Promise<AckReport>;
  extend(deliveries: Delivery | Delivery[], seconds: number): Promise<AckReport>;
  deadLetters(subscriber: string, options?: { limit?: number }): Promise<DeadLetter[]>;
  redrive(subscriber: string, sequences?: number[]): Promise<number>;
  /** The secret, if it is new. */
  setWebhook(
    name: string,
    subscriber: string,
    url: string,
    options?: { secret?: string; concurrency?: number; withData?: boolean },
  ): Promise<string | undefined>;
  removeWebhook(name: string): Promise<boolean>;
  explain(event: Event, id?: Id): Promise<Record<string, unknown>>;
  stats(): Promise<Record<string, unknown>>;
}
