import type { Segments } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError, isFinal } from "../../core/errors.ts";
import type { Handle } from "../../core/handle.ts";
import { mkfsContext } from "../../core/mkfs-options.ts";
import type { ClaimsAbility, Volume } from "../../drivers/driver.ts";
import { adoptKey, byClaim, type Candidate, decided, type Tenant, tenantOf } from "../../drivers/tenure.ts";
import type { Connection } from "../connection.ts";
import type { RouterContext } from "../context.ts";
import { lockKey, type RoutedVolume } from "../handles.ts";
import type { Creation } from "../member-selection.ts";
import { ability, evaluateExisting, refuseClass } from "../placement.ts";

/** Who a new volume of this connection is for. Throws "invalid-argument" if the class asks for what its driver cannot do. */
export function tenantOn(connection: Connection, { request }: Pick<Creation, "request">): Tenant | undefined {
  const { name, parameters, capabilities } = request;
  refuseClass(connection, parameters);
  const tenant = tenantOf(name, parameters, capabilities, connection.access.kinds.includes("block"));
  if (parameters[adoptKey] === byClaim) claimsOf(connection);
  return tenant;
}

function claimsOf(connection: Connection): ClaimsAbility {
  const { claims } = ability(connection, "retention");
  if (claims) return claims;
  const text = `connection "${connection.name}" (driver ${connection.driverName}): the class has adopt: byClaim, and this storage does not tell who still uses a volume; bind volumes by hand (csimux volumes adopt)`;
  throw new CsiError("invalid-argument", text);
}

/** A volume of the claim on one connection. */
interface Found extends Candidate {
  readonly handle: Handle;
  readonly tenant: Tenant;
  readonly accessibleTopology: readonly Segments[];
}

/**
 * The volume that the claim of the request has given up before, if there is exactly one, and the class lets it have that again. Undefined if a
 * volume has to be made. Throws "already-exists" if there are several, "failed-precondition" while a node uses it, and "unavailable" if a member of
 * the group cannot be asked: what the claim had may be there. The caller holds the lock of the volume's name.
 */
export async function adopted(context: RouterContext, creation: Creation): Promise<RoutedVolume | undefined> {
  const { request, named, source, call, held } = creation;
  // Its content is to be that of the source.
  if ((request.parameters[adoptKey] ?? "") === "" || source) return undefined;
  const asked = await Promise.all((await membersOf(context, named)).map(member => onMember(context, member, creation)));
  const { name, range, parameters } = request;
  const [{ tenant } = { tenant: undefined }] = asked;
  const wanted = { claim: tenant?.claim, holder: name, range, exists: asked.some(({ exists }) => exists) };
  const decision = decided(
    wanted,
    asked.flatMap(({ found }) => found),
  );
  if (decision.kind === "refused")
    throw new CsiError("already-exists", `volume "${name}" cannot be made: ${decision.why}`);
  if (decision.kind === "new") {
    if (decision.passed.length > 0)
      call.log.info("a volume is made, because none that its claim had before can be adopted", {
        claim: wanted.claim,
        passed: decision.passed.slice(0, 10).join("; "),
      });
    return undefined;
  }
  const { id, handle, tenant: own, tenure, accessibleTopology } = decision.volume;
  held.add([lockKey(handle)]);
  using lease = await context.connections.lease(handle.connection, "retry");
  const { connection } = lease;
  const claims = claimsOf(connection);
  const modification = Object.keys(request.mutable).length > 0 ? ability(connection, "modify") : undefined;
  const forNodes = mkfsContext(parameters, connection.access, request.capabilities);
  const take = async (): Promise<Volume> => {
    const taken = await context.calls.make(connection, () => claims.take(handle.id, own, call));
    await modification?.modify(handle.id, request.mutable, call);
    return taken;
  };
  const volume = await take().catch(async (error: unknown) => {
    // After a final answer, no request for it follows: a later claim of the name must find it given up, as this one did.
    if (isFinal(error) && tenure.released !== undefined)
      await context.calls.make(connection, () => claims.giveBack(handle.id, own, call));
    throw error;
  });
  call.log.info("the claim has a volume again that it had before", { volume: id, claim: wanted.claim });
  return { ...volume, id, context: { ...volume.context, ...forNodes }, source: undefined, accessibleTopology };
}

/** The connections that may have the volume. Throws "unavailable" if one is not known. */
async function membersOf({ groups }: RouterContext, named: string): Promise<readonly string[]> {
  if (!(await groups.has(named))) return [named];
  const { members, unknown } = await groups.resolve(named);
  if (unknown.length === 0) return members;
  const text = `group "${named}": ${unknown.join(", ")} cannot be asked whether it has the volume that the claim had before`;
  throw new CsiError("unavailable", text);
}

/** What a connection has of the claim, and whether it has a volume of the name that is asked for. */
async function onMember(context: RouterContext, member: string, creation: Creation) {
  const { calls, connections, handles, settings } = context;
  const { request, call } = creation;
  await calls.refuse(member);
  return connections.use(member, "retry", async connection => {
    const tenant = tenantOn(connection, creation);
    const claims = claimsOf(connection);
    const { claim, shape } = tenant ?? {};
    if (!tenant || claim === undefined || shape === undefined) return { tenant, exists: false, found: [] };
    const exists = (await calls.find(connection, request.name, call)) !== undefined;
    const volumes = await calls.read("listing", connection, call, own => claims.ofClaim(claim, own));
    const verdict = evaluateExisting(connection, request, settings().policy);
    const refusal = verdict instanceof CsiError ? verdict : undefined;
    const found = volumes.map(
      ({ volume, ...rest }): Found => ({
        ...rest,
        ...{ tenant, shape, bytes: volume.bytes, unreachable: refusal?.message },
        id: handles.encodeNew("volume", member, volume.id),
        handle: { kind: "volume", connection: member, id: volume.id },
        isNamesake: volume.id === connection.driver.names?.idOf(request.name),
        accessibleTopology: verdict instanceof CsiError ? [] : verdict.accessibleTopology,
      }),
    );
    return { tenant, exists, found };
  });
}

/**
 * Records that no PersistentVolume has the volume any more. The deletion succeeds also where that is impossible; then no claim has it again
 * without hands.
 */
export async function giveUp(
  { calls }: RouterContext,
  connection: Connection,
  { id }: Handle,
  call: Call,
): Promise<void> {
  const { retention } = connection.driver;
  if (!retention) return;
  try {
    await calls.read("lookup", connection, call, own => retention.release(id, own));
  } catch (error) {
    // Another process works on it: the caller repeats this.
    if (!(error instanceof CsiError) || error.code === "aborted") throw error;
    const text = "a volume that is left in place could not be marked as given up, so no class adopts it";
    call.log.warn(text, { volume: id, reason: error.message });
  }
}
