import attacher from "../../../examples/kubernetes/attach/attacher-patch.yaml" with { type: "text" };
import attacherRights from "../../../examples/kubernetes/attach/attacher-rights.yaml" with { type: "text" };
import nodeAccount from "../../../examples/kubernetes/base/account.yaml" with { type: "text" };
import csiDriver from "../../../examples/kubernetes/base/csidriver.yaml" with { type: "text" };
import node from "../../../examples/kubernetes/base/node.yaml" with { type: "text" };
import unprivileged from "../../../examples/kubernetes/central-non-root/controller-patch.yaml" with { type: "text" };
import controller from "../../../examples/kubernetes/drivers/central/controller.yaml" with { type: "text" };
import controllerRights from "../../../examples/kubernetes/drivers/central/controller-rights.yaml" with {
  type: "text",
};
import networkPolicy from "../../../examples/kubernetes/drivers/central/network-policy.yaml" with { type: "text" };
import namespace from "../../../examples/kubernetes/namespace.yaml" with { type: "text" };
import nodeRights from "../../../examples/kubernetes/node-labels/rights.yaml" with { type: "text" };
import type { ManifestTexts } from "../../../lib/takeover/manifests.ts";

/** The manifests on which a takeover is based. */
export const examples: ManifestTexts = {
  namespace,
  csiDriver,
  controller,
  unprivileged,
  attacher,
  attacherRights,
  controllerRights,
  networkPolicy,
  node,
  nodeRights: `${nodeAccount}---\n${nodeRights}`,
};
