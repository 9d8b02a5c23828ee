import type { Mapping } from "../core/mapping.ts";
import type { LintSettings } from "../lint/lint.ts";
import { listAt, mappingAt, textAt } from "../lint/lint-input.ts";
import type { Manifest } from "./classes.ts";
import type { TakenOverConnection } from "./connections.ts";

/** The connections that a controller without rights on its node cannot serve. */
export const privilegedBy = (
  converted: readonly TakenOverConnection[],
  { modules }: Pick<LintSettings, "modules">,
): readonly TakenOverConnection[] =>
  converted.filter(({ old: { config } }) => {
    const facts = modules.find(({ names }) => names.includes(textAt(config, "driver") ?? ""))?.facts;
    return !(facts?.unprivileged === "always" || (facts?.unprivileged && config["sshConnection"]));
  });

/** The Deployment with the settings of a patch: those of the pod, mounts of csimux, and one security context for all containers. */
export function unprivileged(deployment: Manifest, patch: Manifest): Manifest {
  const podPath = ["spec", "template", "spec"] as const;
  const pod = mappingAt(deployment, ...podPath);
  const [limited] = listAt(patch, ...podPath, "containers");
  const joined = (key: string, object: Mapping, more: unknown) => [...listAt(object, key), ...listAt(more, key)];
  const containers = (listAt(pod, "containers") as readonly Mapping[]).map(each => ({
    ...each,
    securityContext: mappingAt(limited, "securityContext"),
    ...(each["name"] === "csimux" && { volumeMounts: joined("volumeMounts", each, limited) }),
  }));
  const spec = {
    ...pod,
    securityContext: { ...mappingAt(pod, "securityContext"), ...mappingAt(patch, ...podPath, "securityContext") },
    containers,
    volumes: joined("volumes", pod, mappingAt(patch, ...podPath)),
  };
  const outer = mappingAt(deployment, "spec");
  return { ...deployment, spec: { ...outer, template: { ...mappingAt(outer, "template"), spec } } };
}
