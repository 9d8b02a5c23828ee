import { CsiError } from "../../core/errors.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Api } from "./client.ts";

/** The first version whose API makes datasets and clones with user properties (TrueNAS SCALE 21.08, plugins/pool.py and zfs.py). */
const firstScale = 2108;

/** The driver that does over ssh what this one does over the API alone. */
const overSsh = (driver: string): string => driver.replace("-api-", "-");

/**
 * An API for datasets, which refuses an older system before anything is asked of it. Throws failed-precondition, naming the driver
 * that works there.
 */
export function scaleOnly(api: Api, { connection, driver }: ConnectionIdentity): Api {
  const proved = async (signal: AbortSignal): Promise<void> => {
    const { number, text } = await api.version(signal);
    if (number >= firstScale) return;
    const reason = "its API cannot keep the properties of volumes";
    throw new CsiError(
      "failed-precondition",
      `connection "${connection}": ${api.where} is ${text}, and ${reason}; ${driver} needs TrueNAS SCALE 21.08 or newer; use driver: ${overSsh(driver)} with sshConnection`,
    );
  };
  return {
    where: api.where,
    version: async signal => {
      await proved(signal);
      return api.version(signal);
    },
    call: async (method, params, signal) => {
      await proved(signal);
      return api.call(method, params, signal);
    },
    job: async (method, params, signal) => {
      await proved(signal);
      return api.job(method, params, signal);
    },
  };
}
