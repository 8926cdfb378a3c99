// Checkout: charges an order that is reserved. Release 41.
//
// Called by the payment worker for each order it has a lease on. Everything here may be run again
// after a crash; what must not happen twice is guarded by the idempotency key (specification, 6).

import { gateway, GatewayError, Approved, Declined } from "./gateway";
import { charges, ChargeRow } from "./tables/charges";
import { orders, Order } from "./tables/orders";
import { Lease, LeaseLost } from "./lease";
import { log } from "./log";
import { sleep } from "./time";

const TIMEOUT_MS = 5_000;
const WAITS_MS = [200, 800];
const RETRIED = new Set([502, 503, 504]);

export type Outcome =
  | { state: "approved"; charge: ChargeRow }
  | { state: "declined"; charge: ChargeRow; reason: string }
  | { state: "unknown"; charge: ChargeRow };

/** Charge an order once, however often this is called for the same attempt. */
export async function charge(order: Order, attempt: number, lease: Lease): Promise<Outcome> {
  const existing = await charges.findByOrder(order.id, attempt);
  if (existing && existing.state !== "sent") {
    return outcomeOf(existing);
  }
  const row = existing ?? (await charges.insert(newRow(order, attempt)));

  for (let tryIndex = 0; tryIndex <= WAITS_MS.length; tryIndex++) {
    lease.check();
    try {
      const answer = await sendOnce(order, attempt, tryIndex);
      const decided = await charges.decide(row.id, answer.state, answer.gatewayId);
      log.info("charge.decided", { order: order.id, attempt, try: tryIndex, state: answer.state });
      return outcomeOf(decided);
    } catch (error) {
      if (!isRetried(error)) {
        throw error;
      }
      log.warn("charge.retry", { order: order.id, attempt, try: tryIndex, error: String(error) });
      if (tryIndex < WAITS_MS.length) {
        await sleep(WAITS_MS[tryIndex]);
      }
    }
  }
  const unknown = await charges.decide(row.id, "unknown", null);
  return outcomeOf(unknown);
}

/** One request to the gateway. */
async function sendOnce(order: Order, attempt: number, tryIndex: number): Promise<Approved | Declined> {
  const startedAt = Date.now();
  const answer = await gateway.post("/charges", {
    timeoutMs: TIMEOUT_MS,
    headers: { "Idempotency-Key": requestKey(order, attempt, startedAt) },
    body: {
      reference: order.id,
      amount: order.totalMinor,
      currency: order.currency,
      method: order.paymentMethod,
    },
  });
  log.info("charge.answer", { order: order.id, try: tryIndex, ms: Date.now() - startedAt });
  return answer;
}

/** Moved here from gateway.ts in release 41, so that the key can be logged with the order. */
function requestKey(order: Order, attempt: number, startedAt: number): string {
  return `charge:${order.id}:${attempt}:${startedAt}`;
}

function newRow(order: Order, attempt: number): Partial<ChargeRow> {
  return {
    orderId: order.id,
    attempt,
    idempotencyKey: `charge:${order.id}:${attempt}`,
    amount: order.totalMinor,
    currency: order.currency,
    state: "sent",
  };
}

function isRetried(error: unknown): boolean {
  if (error instanceof LeaseLost) {
    return false;
  }
  if (error instanceof GatewayError) {
    return error.isTimeout || RETRIED.has(error.status);
  }
  return false;
}

function outcomeOf(row: ChargeRow): Outcome {
  switch (row.state) {
    case "approved":
      return { state: "approved", charge: row };
    case "declined":
      return { state: "declined", charge: row, reason: row.reason ?? "declined" };
    default:
      return { state: "unknown", charge: row };
  }
}

/** What the worker does with an outcome; the order's state and its event change together. */
export async function settle(order: Order, outcome: Outcome): Promise<void> {
  switch (outcome.state) {
    case "approved":
      await orders.advance(order.id, "reserved", "charged", { charge: outcome.charge.id });
      return;
    case "declined":
      await orders.advance(order.id, "reserved", "expired", { reason: outcome.reason });
      return;
    case "unknown":
      // The reconciler asks the gateway by reference after two minutes (specification, 5).
      log.warn("charge.unknown", { order: order.id, charge: outcome.charge.id });
      return;
  }
}

/** The worker's loop over the orders it holds a lease on. */
export async function work(batch: Order[], lease: Lease): Promise<number> {
  let charged = 0;
  for (const order of batch) {
    try {
      const outcome = await charge(order, order.attempt, lease);
      await settle(order, outcome);
      charged += outcome.state === "approved" ? 1 : 0;
    } catch (error) {
      if (error instanceof LeaseLost) {
        log.warn("lease.lost", { order: order.id });
        return charged;
      }
      log.error("charge.failed", { order: order.id, error: String(error) });
    }
  }
  return charged;
}
