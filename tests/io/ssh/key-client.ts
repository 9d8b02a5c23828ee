import type { SshSettings } from "../../../lib/io/ssh/settings.ts";
import { ask, hosts } from "./rig.ts";

/** One command on a host, in a process that is killed meanwhile. The settings come as JSON. */
const settings = JSON.parse(process.argv[2] ?? "") as SshSettings;
await ask(hosts().hosts.lease(settings).value, ["true"]);
