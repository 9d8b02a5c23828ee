import type { Call } from "../../../core/call.ts";
import type { IscsiSection } from "../sections.ts";
import { type ChoiceOptions, chosen, idsOf } from "./disk-share.ts";
import { type ShareContext, type TableRow, tableOf } from "./share.ts";

/**
 * Who may log in to the targets of a connection: `groups` returns that as the API has it in a target, and `check` throws "failed-precondition" for
 * portals and initiators that do not exist.
 */
export function iscsiAccess(context: ShareContext, { targetGroups }: Pick<IscsiSection, "targetGroups">) {
  const wantedInitiators = targetGroups.flatMap(group => group.targetGroupInitiatorGroup ?? []);
  const table = (name: string, call: Call) => tableOf(context, `iscsi.${name}`, call);

  /** Portals are identified by their comment, and by the addresses that they listen on, with or without the port. */
  const portals = async (call: Call): Promise<ChoiceOptions> => {
    const wordsOf = (row: TableRow): readonly string[] => {
      const listens = row["listen"] as readonly { readonly ip: string; readonly port?: number }[];
      const addresses = listens.flatMap(({ ip, port = 3260 }) => [ip, `${ip.includes(":") ? `[${ip}]` : ip}:${port}`]);
      return [String(row["comment"]), ...addresses].filter(word => word !== "");
    };
    return { kind: "iSCSI portal", rows: await table("portal", call).find(), wordsOf };
  };

  /** Groups of initiators are identified by their comment, and by the names of their members. */
  const initiators = async (call: Call): Promise<ChoiceOptions> => {
    const wordsOf = (row: TableRow): readonly string[] =>
      [String(row["comment"]), ...(row["initiators"] as readonly string[])].filter(word => word !== "");
    return { kind: "iSCSI initiator group", rows: await table("initiator", call).find(), wordsOf };
  };

  return {
    async groups(call: Call): Promise<readonly object[]> {
      const wantedPortals = targetGroups.map(group => group.targetGroupPortalGroup);
      const [portalIds, initiatorIds] = await Promise.all([
        idsOf(context, wantedPortals, () => portals(call)),
        idsOf(context, wantedInitiators, () => initiators(call)),
      ]);
      const idOf = new Map(wantedInitiators.map((choice, at) => [choice, initiatorIds[at]]));
      return targetGroups.map((group, at) => ({
        portal: portalIds[at],
        initiator: idOf.get(group.targetGroupInitiatorGroup ?? "") ?? null,
        authmethod:
          group.targetGroupAuthType === "" ? "NONE" : group.targetGroupAuthType.toUpperCase().replace(" ", "_"),
        auth: group.targetGroupAuthGroup ? group.targetGroupAuthGroup : null,
      }));
    },
    async check(call: Call): Promise<void> {
      const known = await portals(call);
      for (const each of targetGroups) chosen(context, known, each.targetGroupPortalGroup);
      if (wantedInitiators.length === 0) return;
      const groups = await initiators(call);
      for (const choice of wantedInitiators) chosen(context, groups, choice);
    },
  };
}

/** Whether targets admit the same initiators through the same portals, with the same authentication. */
export function isSameAccess(theirs: readonly object[], ours: readonly object[]): boolean {
  const keys = ["portal", "initiator", "authmethod", "auth"] as const;
  const textsOf = (groups: readonly object[]): string =>
    JSON.stringify(groups.map(group => keys.map(key => (group as TableRow)[key] ?? null).join()).toSorted());
  return textsOf(theirs) === textsOf(ours);
}
