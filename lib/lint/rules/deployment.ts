import { hostpath, inZone, iscsi, lio, main, nfs, type Rule, smb, truenas, zfs, zones } from "./rule.ts";

const rule = (text: string): string => `  nodeTopology:\n    type: zone\n    fromRegexp:\n${text}`;

const hostKey =
  "  hostKey: nas.example.org ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJqfzv2hQH0KfTzJrJYgXcXhH0kqPcF0mKpGv5dYXQ1R\n";

/** Rules about connections, and about what they and the main file must agree on. */
export const deployment: readonly Rule[] = [
  {
    id: "duplicate-connection",
    severity: "error",
    title: "Connection names are unique",
    why: "c1.yaml and c1.yml both claim the name; csimux refuses to choose.",
    bad: { "c1.yaml": nfs(), "c1.yml": nfs("", "other.example.org") },
    good: { "c1.yaml": nfs(), "c2.yaml": nfs("", "other.example.org") },
  },
  {
    id: "duplicate-instance-id",
    severity: "warning",
    title: "instance_id is unique",
    why: "Parameters of the form democratic-csi.org/<instance_id>/key reach every connection with that id.",
    bad: { "c1.yaml": nfs("instance_id: a\n"), "c2.yaml": nfs("instance_id: a\n", "other.example.org") },
    good: { "c1.yaml": nfs("instance_id: a\n"), "c2.yaml": nfs("instance_id: b\n", "other.example.org") },
  },
  {
    id: "duplicate-portal",
    severity: "warning",
    title: "Portals are listed once",
    why: "The same portal twice looks like a second path, but is none.",
    bad: { "c1.yaml": iscsi("[nas.example.org, 'nas.example.org:3260']") },
    good: { "c1.yaml": iscsi("[nas.example.org, nas2.example.org]") },
  },
  {
    id: "snapshot-method-without-settings",
    severity: "warning",
    title: "Snapshots in a repository name the repository",
    why: "restic and kopia keep snapshots outside of the storage, where `snapshots.restic` or `snapshots.kopia` says. Without it every snapshot is refused.",
    bad: { "c1.yaml": nfs("  snapshots: { default_driver: restic }\n") },
    good: { "c1.yaml": nfs("  snapshots: { default_driver: filecopy }\n") },
  },
  {
    id: "long-connection-name",
    severity: "warning",
    title: "Names leave room for snapshots",
    why: "CSI allows 128 bytes for an id, and the connection's name is part of it. Longer snapshot names are shortened with a hash, which is harder to recognise.",
    bad: {
      [`${"n".repeat(45)}.yaml`]: truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n"),
    },
    good: { "nas.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n") },
  },
  {
    id: "node-block-in-connection",
    severity: "warning",
    title: "Node settings stand in the main file",
    why: "Of the `node:` block in a connection file `mount.mount_flags` alone counts: for the controller, and for nodes that have the file. Nodes take everything else from the main file.",
    bad: { "c1.yaml": nfs("node: { format: { ext4: { customOptions: [-m0] } } }\n") },
    good: {
      "c1.yaml": nfs("node: { mount: { mount_flags: noatime } }\n"),
      "proxy.yaml": `${main()}node: { format: { ext4: { customOptions: [-m0] } } }\n`,
    },
  },
  {
    id: "export-to-everybody",
    severity: "warning",
    title: "Exports with the rights of root name the nodes",
    why: "An NFS server believes what a host says of its users. With `no_root_squash`, `maproot=root` or `shareMaprootUser: root`, and without hosts or networks, every device and every pod that reaches the server is root on all volumes.",
    bad: { "c1.yaml": zfs(hostKey).replace('"on"', "'rw,no_root_squash'") },
    good: { "c1.yaml": zfs(hostKey).replace('"on"', "'rw=@10.0.0.0/24,no_root_squash'") },
  },
  {
    id: "chap-not-asked-for",
    severity: "error",
    title: "CHAP credentials are asked for",
    why: "With `userid` and `password` but without `authentication: 1` LIO lets every initiator log in and write, while the file looks protected. csimux serves such a connection as democratic-csi does; volumes that exist keep the setting of their targets, which targetcli changes (`set attribute authentication=1`) once all nodes have the password.",
    bad: { "c1.yaml": lio(0) },
    good: { "c1.yaml": lio(1) },
  },
  {
    id: "extra-collides",
    severity: "error",
    title: "Extra labels do not use the prefix of topology keys",
    why: "Two values for one label can never hold at once, so no node would fit.",
    bad: {
      "c1.yaml": nfs(
        "proxy:\n  perDriver:\n    topology:\n      - requirements: { zone: z1 }\n        extra: { org.democratic-csi.topology/zone: z2 }\n",
      ),
    },
    good: { "c1.yaml": inZone("z1") },
  },
  {
    id: "repeated-place",
    severity: "warning",
    title: "Places differ",
    why: "The same place twice means nothing; one of the two was probably meant to be another.",
    bad: {
      "c1.yaml": nfs(
        "proxy:\n  perDriver:\n    topology:\n      - requirements: { zone: z1 }\n      - requirements: { zone: z1 }\n",
      ),
    },
    good: {
      "c1.yaml": nfs(
        "proxy:\n  perDriver:\n    topology:\n      - requirements: { zone: z1 }\n      - requirements: { zone: z2 }\n",
      ),
    },
  },
  {
    id: "topology-not-configured",
    severity: "error",
    title: "Places need nodes that report them",
    why: "Without nodeTopology in the main file no node reports any key, and the volumes of this connection fit nowhere.",
    bad: { "proxy.yaml": main(), "c1.yaml": inZone("z1") },
    good: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1") },
  },
  {
    id: "topology-key-unknown",
    severity: "error",
    title: "Places use keys that nodes report",
    why: "No node can ever fit.",
    bad: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1", "zoen") },
    good: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1") },
  },
  {
    id: "topology-value-unknown",
    severity: "error",
    title: "Places use values that nodes report",
    why: "All rules for this key give fixed values, and this is none of them.",
    bad: {
      "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName, template: z1 }\n")),
      "c1.yaml": inZone("z2"),
    },
    good: {
      "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName, template: z1 }\n")),
      "c1.yaml": inZone("z1"),
    },
  },
  {
    id: "local-needs-node-topology",
    severity: "error",
    title: "Local drivers need nodeTopology type node",
    why: "A volume on one node must be tied to it; otherwise pods are scheduled where it does not exist.",
    bad: { "proxy.yaml": main(), "c1.yaml": hostpath },
    good: { "proxy.yaml": main("  nodeTopology: { type: node }\n"), "c1.yaml": hostpath },
  },
  {
    id: "mixed-deployment",
    severity: "warning",
    title: "Local and remote drivers are deployed apart",
    why: "Local drivers need a controller on every node, the others one for all; one deployment cannot be both.",
    bad: { "c1.yaml": nfs(), "c2.yaml": hostpath },
    good: { "c1.yaml": nfs() },
  },
  {
    id: "legacy-connection-missing",
    severity: "error",
    title: "legacyConnection exists",
    why: "Existing volumes could neither be expanded nor deleted.",
    bad: { "proxy.yaml": main("  legacyConnection: old\n"), "c1.yaml": nfs() },
    good: { "proxy.yaml": main("  legacyConnection: c1\n"), "c1.yaml": nfs() },
  },
  {
    id: "group-member-missing",
    severity: "error",
    title: "Members of groups exist",
    why: "A member without a file takes no volume, and csimux cannot tell whether a volume of the group is on it.",
    bad: { "proxy.yaml": main("  groups: { all: { members: [c1, c3] } }\n"), "c1.yaml": nfs() },
    good: { "proxy.yaml": main("  groups: { all: { members: [c1] } }\n"), "c1.yaml": nfs() },
  },
  {
    id: "group-name-taken",
    severity: "error",
    title: "Groups and connections have different names",
    why: "A class that names it could mean either.",
    bad: { "proxy.yaml": main("  groups: { c1: { members: [c1] } }\n"), "c1.yaml": nfs() },
    good: { "proxy.yaml": main("  groups: { all: { members: [c1] } }\n"), "c1.yaml": nfs() },
  },
  {
    id: "group-empty",
    severity: "warning",
    title: "Selectors select something",
    why: "A group without members cannot make a volume.",
    bad: { "proxy.yaml": main("  groups: { fast: { selector: tier=fast } }\n"), "c1.yaml": nfs() },
    good: {
      "proxy.yaml": main("  groups: { fast: { selector: tier=fast } }\n"),
      "c1.yaml": nfs("proxy: { perDriver: { labels: { tier: fast } } }\n"),
    },
  },
  {
    id: "group-mixed",
    severity: "warning",
    title: "Members of a group make the same kind of volume",
    why: "A class asks for one file system; a member that makes another refuses.",
    bad: { "proxy.yaml": main("  groups: { all: { members: [c1, c2] } }\n"), "c1.yaml": nfs(), "c2.yaml": smb },
    good: { "proxy.yaml": main("  groups: { all: { members: [c1] } }\n"), "c1.yaml": nfs(), "c2.yaml": smb },
  },
  {
    id: "shared-storage",
    severity: "error",
    title: "Every connection has its own dataset or folder",
    why: "Two connections on one tree list, adopt and clear away each other's volumes. A warning where names cannot clash: a tree beside the other's volumes, or volumes that are told apart by protocol, or by the instance_ids of both connections.",
    bad: { "c1.yaml": nfs(), "c2.yaml": nfs("", "NAS.example.org.") },
    good: { "c1.yaml": nfs(), "c2.yaml": nfs("", "nas.example.org", "/export/more") },
  },
  {
    id: "credentials-over-http",
    severity: "warning",
    title: "Credentials travel encrypted",
    why: "Anybody on the way can read them. An API key over http is an error: newer TrueNAS revokes it.",
    bad: {
      "c1.yaml": truenas("  protocol: http\n  host: nas.example.org\n  port: 80\n  username: csi\n  password: abc\n"),
    },
    good: { "c1.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n") },
  },
  {
    id: "port-of-other-protocol",
    severity: "warning",
    title: "Protocol and port belong together",
    why: "A port that speaks TLS does not answer to http, nor the other way round.",
    bad: { "c1.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 80\n  apiKey: 1-abc\n") },
    good: { "c1.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n") },
  },
  {
    id: "certificate-unchecked",
    severity: "warning",
    title: "Certificates are checked",
    why: "Without the check anybody on the way can pose as the server and read the credentials.",
    bad: {
      "c1.yaml": truenas(
        "  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n  allowInsecure: true\n",
      ),
    },
    good: { "c1.yaml": truenas("  protocol: https\n  host: nas.example.org\n  port: 443\n  apiKey: 1-abc\n") },
  },
  {
    id: "host-key-unchecked",
    severity: "warning",
    title: "SSH host keys are known beforehand",
    why: "Without hostKey or knownHosts the first key that the server shows is remembered and trusted from then on; with hostKeyPolicy: off none is ever checked.",
    bad: { "c1.yaml": zfs("") },
    good: {
      "c1.yaml": zfs(hostKey),
    },
  },
];
