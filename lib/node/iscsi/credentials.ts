import type { Secrets } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Attributes } from "./node-record.ts";

const prefix = "node-db.";
const nameForm = /^(?:node|discovery|iface)\.[A-Za-z0-9_.[\]]{1,100}$/;

const auth = "node.session.auth";

/**
 * The attributes for the node record of a session. csimux opens sessions itself and scans only for the requested LUN.
 * With multipath, a failed path must be reported soon. Secrets `node-db.<attribute>` override the defaults, as in
 * democratic-csi; a user name enables CHAP. Throws "invalid-argument" for an attribute that no record can hold.
 */
export function attributesOf(secrets: Secrets, isMultipath: boolean): Attributes {
  const given = Object.entries(secrets).filter(([key]) => key.startsWith(prefix));
  for (const [key, value] of given) {
    if (!nameForm.test(key.slice(prefix.length)) || /[\n\r\0]/.test(value))
      throw new CsiError(
        "invalid-argument",
        `the secret ${JSON.stringify(key.slice(0, 100))} does not name an attribute of a node record`,
      );
  }
  const own = Object.fromEntries(given.map(([key, value]) => [key.slice(prefix.length), value]));
  return {
    "node.session.timeo.replacement_timeout": isMultipath ? "5" : "120",
    "node.session.initial_login_retry_max": "2",
    "node.conn[0].timeo.login_timeout": "10",
    ...(own[`${auth}.username`] && { [`${auth}.authmethod`]: "CHAP" }),
    ...own,
    "node.startup": "manual",
    "node.session.scan": "manual",
  };
}
