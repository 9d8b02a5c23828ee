import { protocols } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import { otherFlags } from "../mount/flags.ts";
import type { Attacher } from "./attacher.ts";
import { shareOf } from "./context.ts";

/** Network ids of the management servers: "," separates ids of one server, ":" separates servers (mount.lustre(8)). */
const nids = /^[A-Za-z0-9][A-Za-z0-9._@,:[\]-]{0,1000}$/;

/** Lustre: `server` holds the network ids, `share` a file system and folder. Uses the host's tools. */
export const lustre = (): Attacher => ({
  access: protocols.lustre,
  storageOf: context => ({ name: `lustre ${context["server"] ?? ""}`, addresses: [] }),
  async attach(wanted) {
    const server = wanted.context["server"] ?? "";
    if (!nids.test(server)) {
      const given = JSON.stringify(server.slice(0, 200));
      const text = `volume "${wanted.volumeId}": server ${given} is not a list of network ids`;
      throw new CsiError("invalid-argument", text);
    }
    const options = otherFlags(wanted.capability.mountFlags);
    return { kind: "share", fsType: "lustre", source: `${server}:${shareOf(wanted)}`, options, onHost: true };
  },
});
