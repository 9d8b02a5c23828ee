import { describe, expect, test } from "bun:test";
import { hasGoProgram } from "../scripts/cluster/tools.ts";
import { helm, type KubeObject, objectsOf, rendered, required } from "./helm.ts";

const of = (objects: readonly KubeObject[], kind: string): readonly KubeObject[] =>
  objects.filter(each => each.kind === kind);
const csimuxIn = (objects: readonly KubeObject[], kind: string) =>
  of(objects, kind)[0]?.["spec"].template.spec.containers[0];
const api = "driver: freenas-api-nfs\n";
const withPage = { ...required, page: { enabled: true, existingSecret: "password" } };

describe.skipIf(!hasGoProgram("helm"))("the chart", () => {
  test.each(["central", "node-local"])("serves no metrics in mode %s if they are switched off", async mode => {
    const objects = await rendered({ ...required, mode, metrics: { enabled: false } });
    const text = JSON.stringify(objects);
    for (const word of ["metrics", "9733", "9736", "prometheus"]) expect(text).not.toContain(word);
  });

  test.each(["central", "node-local"])("lets a ServiceMonitor scrape the port of mode %s", async mode => {
    const metrics = { serviceMonitor: { enabled: true, additionalLabels: { release: "prometheus" } } };
    const objects = await rendered({ ...required, mode, metrics });
    const [monitor] = of(objects, "ServiceMonitor");
    const [service] = of(objects, "Service");
    expect(monitor?.metadata.labels).toMatchObject({ release: "prometheus" });
    expect(service?.metadata.labels).toMatchObject(monitor?.["spec"].selector.matchLabels);
    const { ports } = csimuxIn(objects, "DaemonSet");
    expect(service?.["spec"].ports).toEqual([
      { name: "metrics", port: ports[0].containerPort, targetPort: ports[0].name },
    ]);
  });

  test("serves the page to the pod alone without a password, and through a Service with one", async () => {
    const alone = await rendered({ ...required, page: { enabled: true } });
    expect(csimuxIn(alone, "Deployment").args).toContain("--page-address=127.0.0.1:9737");
    expect(of(alone, "Service")).toEqual([]);
    const objects = await rendered(withPage);
    const { args, ports, volumeMounts } = csimuxIn(objects, "Deployment");
    expect(args).toEqual(expect.arrayContaining(["--page-address=:9737", "--page-token-file=/page/token"]));
    expect(ports).toContainEqual({ name: "page", containerPort: 9737 });
    expect(volumeMounts).toContainEqual({ name: "page", mountPath: "/page", readOnly: true });
    const [service] = of(objects, "Service");
    expect(service?.["spec"].ports).toEqual([{ name: "page", port: 80, targetPort: "page" }]);
    expect(of(objects, "Deployment")[0]?.["spec"].template.metadata.labels).toMatchObject(service?.["spec"].selector);
    expect(of(objects, "NetworkPolicy")[0]?.["spec"].ingress[0].ports).toContainEqual({ port: "page" });
  });

  test("leads to the page through an Ingress or an HTTPRoute", async () => {
    const ingress = {
      enabled: true,
      ingressClassName: "nginx",
      host: "csimux.lan",
      annotations: { a: "b" },
    };
    const httproute = { enabled: true, parentRefs: [{ name: "gateway" }], hostnames: ["csimux.lan"] };
    const objects = await rendered({ ...required, page: { ...withPage.page, ingress, httproute } });
    const name = of(objects, "Service")[0]?.metadata.name;
    const [made] = of(objects, "Ingress");
    expect(made?.metadata).toMatchObject({ annotations: { a: "b" } });
    expect(made?.["spec"]).toMatchObject({
      ingressClassName: "nginx",
      tls: [{ hosts: ["csimux.lan"], secretName: "csimux-page-tls" }],
      rules: [{ host: "csimux.lan", http: { paths: [{ backend: { service: { name, port: { name: "page" } } } }] } }],
    });
    const plain = await rendered({
      ...required,
      page: { ...withPage.page, ingress: { ...ingress, tls: false } },
    });
    expect(of(plain, "Ingress")[0]?.["spec"].tls).toBeUndefined();
    expect(of(objects, "HTTPRoute")[0]?.["spec"]).toMatchObject({
      ...{ parentRefs: httproute.parentRefs, hostnames: httproute.hostnames },
      rules: [{ backendRefs: [{ name, port: 80 }] }],
    });
  });

  test.each([
    ["snapshotMetadata.existingSecret", { snapshotMetadata: { enabled: true } }],
    ["needs the mode central", { mode: "node-local", snapshotMetadata: { enabled: true, existingSecret: "x" } }],
    ["page.existingSecret", { page: { enabled: true, ingress: { enabled: true, host: "x" } } }],
    ["page.ingress.host", { page: { ...withPage.page, ingress: { enabled: true } } }],
    ["page.httproute.parentRefs", { page: { ...withPage.page, httproute: { enabled: true } } }],
    ["mode central", { mode: "node-local", page: withPage.page }],
    ["metrics.enabled", { metrics: { enabled: false }, podMonitor: { enabled: true } }],
    ["pages", { pages: { enabled: true } }],
    ["tokenSecret", { page: { tokenSecret: "x" } }],
  ])("refuses options that cannot work with a word about %s", async (word, values) => {
    expect(await rendered({ ...required, ...values }).catch(String)).toContain(word);
  });

  test("trusts further certificates where connections are opened, and restarts pods with other ones", async () => {
    const nameOf = async (extraCaCerts: string, mode: string) => {
      const objects = await rendered({ ...required, mode, extraCaCerts });
      const kind = mode === "central" ? "Deployment" : "DaemonSet";
      const [config] = of(objects, "ConfigMap").filter(
        each => each.metadata.name.includes("-ca-") || each["data"]["extra-ca-certs.crt"],
      );
      expect(config?.["data"]).toEqual({ "extra-ca-certs.crt": `${extraCaCerts}\n` });
      expect(csimuxIn(objects, kind).env).toContainEqual({
        name: "NODE_EXTRA_CA_CERTS",
        value: "/ca/extra-ca-certs.crt",
      });
      const volumes = of(objects, kind)[0]?.["spec"].template.spec.volumes;
      expect(volumes).toContainEqual({ name: "ca", configMap: { name: config?.metadata.name ?? "" } });
      return config?.metadata.name;
    };
    for (const mode of ["central", "node-local"]) expect(await nameOf("one", mode)).not.toBe(await nameOf("two", mode));
  });

  test("serves lists of changed blocks with a certificate, and the permissions for the sidecar's calls of the API", async () => {
    const objects = await rendered({ ...required, snapshotMetadata: { enabled: true, existingSecret: "cert" } });
    const { containers, volumes } = of(objects, "Deployment")[0]?.["spec"].template.spec ?? {};
    const mount = { name: "snapshot-metadata", mountPath: "/tls", readOnly: true };
    expect(containers.at(-1)).toMatchObject({
      args: expect.arrayContaining(["--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key"]),
      ports: [{ name: "changed-blocks", containerPort: 50051 }],
      volumeMounts: expect.arrayContaining([mount]),
    });
    expect(volumes).toContainEqual({ name: "snapshot-metadata", secret: { secretName: "cert" } });
    const role = of(objects, "ClusterRole").find(({ metadata }) => metadata.name === "csimux-snapshot-metadata");
    const rules = role?.["rules"] as readonly { readonly resources: string[]; readonly verbs: string[] }[];
    // external-snapshot-metadata 1.1, pkg/internal; its own role (deploy/snapshot-metadata-cluster-role.yaml) has more.
    expect(rules.map(({ resources, verbs }) => `${resources.join()}: ${verbs.join(" ")}`)).toEqual([
      "snapshotmetadataservices: get",
      "tokenreviews: create",
      "subjectaccessreviews: create",
      "volumesnapshots,volumesnapshotcontents: get",
    ]);
  });

  test.each([
    ["a privileged controller", {}, ["csimux-node", "csimux-controller"], undefined],
    ["an unprivileged controller", { connections: { nas: api } }, ["csimux-node"], "system:openshift:scc:nonroot-v2"],
    ["node-local", { mode: "node-local" }, ["csimux-node-local"], undefined],
  ])("gives OpenShift the constraints for %s", async (_, values, users, other) => {
    const objects = await rendered({ ...required, ...values, openshift: { enabled: true } });
    const [constraints] = of(objects, "SecurityContextConstraints");
    const uses = of(objects, "ClusterRole").find(each => each.metadata.name.endsWith("-scc"));
    expect(uses?.["rules"][0]).toMatchObject({ verbs: ["use"], resourceNames: [constraints?.metadata.name] });
    const bindings = of(objects, "RoleBinding").filter(({ roleRef }) => roleRef.kind === "ClusterRole");
    expect(bindings[0]?.["subjects"].map(({ name }: { name: string }) => name)).toEqual(users);
    expect(bindings[1]?.["roleRef"].name).toBe(other);
    expect(of(objects, "CSIDriver")[0]?.metadata.labels).toMatchObject({
      "security.openshift.io/csi-ephemeral-volume-profile": "restricted",
    });
    // Every account of a pod may use some constraints.
    const bound = bindings.flatMap(({ subjects }) => subjects as { name: string }[]).map(({ name }) => name);
    const pods = objects.flatMap(each => each["spec"]?.template?.spec?.serviceAccountName ?? []);
    expect(new Set(bound)).toEqual(new Set(pods));
  });

  test("tests each class that deletes its volumes with a pod that even a restricted namespace admits", async () => {
    const storageClasses = [{ name: "nas" }, { name: "kept", reclaimPolicy: "Retain" }];
    const flags = ["--namespace", "storage", "--kube-version", "1.36.0"];
    const { stdout } = await helm(["template", "csimux"], { ...required, storageClasses }, flags);
    const pods = objectsOf(stdout).filter(({ kind }) => kind === "Pod");
    expect(pods.map(({ metadata }) => metadata.name)).toEqual(["csimux-test-nas"]);
    const spec = pods[0]?.["spec"];
    expect(spec.volumes[0].ephemeral.volumeClaimTemplate.spec.storageClassName).toBe("nas");
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
    expect(spec.containers[0].securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    });
  });

  test("names objects by the release, so that two releases have no object in common but the driver's", async () => {
    const namesOf = async (release: string) =>
      (await rendered(required, release)).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    const [one, two] = [await namesOf("nas"), await namesOf("csimux-two")];
    expect(one.filter(name => two.includes(name))).toEqual(["CSIDriver csimux.storage"]);
    expect(one).toContain("Deployment csimux-controller-nas");
    expect(two).toContain("Deployment csimux-controller-two");
    expect(await namesOf("csimux")).toContain("Deployment csimux-controller");
  });
});
