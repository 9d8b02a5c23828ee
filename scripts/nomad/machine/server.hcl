name                 = "server"
bind_addr            = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
disable_update_check = true
server {
  enabled          = true
  bootstrap_expect = 1
  # A client that is silent for about 15 s is down.
  min_heartbeat_ttl = "10s"
  heartbeat_grace   = "5s"
  # The defaults are minutes and hours, because tests wait for what Nomad forgets.
  csi_volume_claim_gc_interval  = "15s"
  csi_volume_claim_gc_threshold = "15s"
}
