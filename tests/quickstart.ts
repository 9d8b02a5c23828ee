import { type Section, sectionsOf } from "./tutorial/page.ts";

/** The sections of examples/guide/quickstart.md that have commands, in order. */
export const sections = (): readonly Section[] => sectionsOf("quickstart");

/** The sections for one of the two tools, without those of the other. */
export const sectionsFor = (tool: "kind" | "k3s"): readonly Section[] =>
  sections().filter(({ title }) => !/cluster with (?:kind|k3s)/.test(title) || title.endsWith(tool));

/** What a rehearsal changes in the page's commands: the tools of kind and k3s, and what their machine or network gives. */
export interface Stage {
  /** The image of the pod, which this cluster cannot pull. */
  readonly podImage: string;
  /** The connection that replaces the one to the NFS server if the kernel of the machine has no NFS; undefined: NFS. */
  readonly folder?: string;
}

/** Sections of the page that others have done before a rehearsal: the image, the cluster, and the server if the kernel has no NFS. */
const isGiven = ({ title }: Section, { folder }: Stage): boolean =>
  /image$|cluster with/.test(title) || (folder !== undefined && title.includes("NFS server"));

/**
 * The commands of the page for a cluster that runs already, has csimux's image and the CRDs of snapshots, and reaches no network. Everything
 * else is exactly as in the page; each replaced text must occur.
 */
export function rehearsal(stage: Stage): string {
  const replaced = (text: string, from: string | RegExp, to: string): string => {
    if (text.search(from) < 0) throw new Error(`the page has no ${from}`);
    return text.replace(from, to);
  };
  let text = sectionsFor("kind")
    .filter(each => !isGiven(each, stage))
    .map(({ commands }) => commands)
    .join("");
  text = replaced(
    text,
    /^kubectl apply --server-side -k 'https:.*\n(?:kubectl apply --server-side -k 'https:.*\n)*/m,
    "",
  );
  text = replaced(text, "image: busybox:1.37", `image: ${stage.podImage}`).replaceAll("sudo ", "");
  const { folder } = stage;
  if (folder === undefined) return text;
  text = replaced(text, /driver: nfs-client\n[\s\S]*?(?=^EOF$)/m, connection(folder));
  return replaced(text, "find /srv/csimux ", `find ${folder} `);
}

const connection = (folder: string): string =>
  `driver: local-hostpath\nlocal-hostpath:\n  shareBasePath: ${folder}\n  controllerBasePath: ${folder}\n`;
