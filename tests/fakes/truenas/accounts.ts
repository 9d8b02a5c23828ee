import { CallError } from "./failure.ts";

/** Who may log in, and what with. */

/** A user's key as it is kept. */
interface Key {
  readonly user: string;
  revoked?: true;
  expired?: true;
}

/** What a login gave; shared by everything that is done with it. */
export interface Session {
  readonly user: string;
  /** The key or password, to tell clients of a test apart. */
  readonly credential: string;
  expired: boolean;
}

/**
 * The roles that a role includes, itself among them: a WRITE role includes its READ role, except SERVICE_WRITE; DELETE roles include
 * nothing (src/middlewared/middlewared/role.py of 24.10.2.4, 25.04.2.6, 25.10.6 and 26.0.0-BETA.3).
 */
const included = (role: string): readonly string[] =>
  role.endsWith("_WRITE") && role !== "SERVICE_WRITE" ? [role, role.replace(/_WRITE$/, "_READ")] : [role];

export class Accounts {
  readonly #passwords = new Map<string, string>([["csi", "correct horse"]]);
  readonly #roles = new Map<string, readonly string[]>([["csi", ["FULL_ADMIN"]]]);
  readonly #keys = new Map<string, Key>([["1-secret", { user: "csi" }]]);
  readonly #sessions = new Set<Session>();
  /** How many logins there were, whatever became of them. */
  logins = 0;
  /** Logins that were requests over REST, each of which is one. */
  restLogins = 0;

  addKey(key: string, roles: readonly string[] = ["FULL_ADMIN"], user = `user-of-${key}`): void {
    this.#keys.set(key, { user });
    this.#roles.set(user, roles);
  }

  revoke(key: string, how: "revoked" | "expired" = "revoked"): void {
    const known = this.#keys.get(key);
    if (known) known[how] = true;
  }

  isRevoked = (key: string): boolean => this.#keys.get(key)?.revoked === true;

  /** The session of a key, or why there is none. */
  byKey(key: string, user: string | undefined): Session | "AUTH_ERR" | "EXPIRED" {
    this.logins++;
    const known = this.#keys.get(key);
    if (!known || (user !== undefined && known.user !== user)) return "AUTH_ERR";
    return known.revoked || known.expired ? "EXPIRED" : this.#opened(known.user, key);
  }

  byPassword(user: string, password: string): Session | "AUTH_ERR" {
    this.logins++;
    return this.#passwords.get(user) === password ? this.#opened(user, password) : "AUTH_ERR";
  }

  #opened(user: string, credential: string): Session {
    const session = { user, credential, expired: false };
    this.#sessions.add(session);
    return session;
  }

  /** Every session ends, as after 30 days. */
  expireAll(): void {
    for (const session of this.#sessions) session.expired = true;
    this.#sessions.clear();
  }

  /** Throws what the server says to a session that lacks the role. */
  allow(session: Session | undefined, role: string | undefined): void {
    if (!session) throw new CallError("ENOTAUTHENTICATED", "Not authenticated");
    if (session.expired) throw new CallError("EACCES", "Session is expired");
    if (role !== undefined && !this.isFullAdmin(session) && !this.rolesOf(session).includes(role))
      throw new CallError("EACCES", "Not authorized");
  }

  isFullAdmin = (session: Session): boolean => this.rolesOf(session).includes("FULL_ADMIN");

  /** As auth.me and auth.login_ex show an account (plugins/auth.py, me, of TS-25.10.6). */
  shown = (session: Session): object => ({
    ...{ pw_name: session.user, pw_gecos: "", pw_dir: "/var/empty", pw_shell: "/usr/sbin/nologin" },
    ...{ pw_uid: 3000, pw_gid: 3000, grouplist: [3000], sid: null, source: "LOCAL", local: true },
    ...{ attributes: {}, two_factor_config: {}, account_attributes: ["LOCAL"] },
    privilege: { roles: this.rolesOf(session) },
  });

  /** As auth.me answers them: with the included ones, and FULL_ADMIN alone (plugins/account_/privilege.py, compose_privilege, 25.10.6). */
  rolesOf(session: Session): readonly string[] {
    return (this.#roles.get(session.user) ?? []).flatMap(included);
  }
}
