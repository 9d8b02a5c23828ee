import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Context, InlineVolume } from "../drivers/driver.ts";
import type { Connections } from "./connections.ts";
import { ability } from "./placement.ts";

/** Volumes that live with their pod, on the connection that the pod names (CSI ephemeral inline volumes of Kubernetes). */
export class InlineRouting {
  readonly #connections: Pick<Connections, "use">;
  readonly #single: () => string | undefined;

  /** `single`: the connection if there is only one. */
  constructor(connections: Pick<Connections, "use">, single: () => string | undefined) {
    this.#connections = connections;
    this.#single = single;
  }

  /** The connection that these attributes name. Throws "invalid-argument" if they name none. */
  connectionOf(attributes: Context): string {
    const name = attributes["connection"] || this.#single();
    if (name) return name;
    throw new CsiError("invalid-argument", 'the inline volume has no attribute "connection"; its pod must name one');
  }

  /** Like InlineAbility.make. */
  make(
    connection: string,
    id: string,
    attributes: Context,
    begin: (source: string) => Promise<void>,
    call: Call,
  ): Promise<InlineVolume> {
    return this.#connections.use(connection, "refuse", each =>
      ability(each, "inline").make(id, attributes, begin, call),
    );
  }

  /** Like InlineAbility.remove. While the connection cannot be used, the volume is not taken for gone. */
  remove(connection: string, id: string, identity: string | undefined, call: Call): Promise<void> {
    return this.#connections.use(connection, "retry", each => ability(each, "inline").remove(id, identity, call));
  }
}
