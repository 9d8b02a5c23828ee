/** The folders of programs on common distributions, as PATH has them; the last one is NixOS's. */
export const hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin";
