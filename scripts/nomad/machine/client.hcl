bind_addr            = "127.0.0.1"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
data_dir             = "/run/nomad/data"
disable_update_check = true
client {
  enabled           = true
  servers           = ["127.0.0.1:4647"]
  network_interface = "lo"
  cgroup_parent     = "csimux-nomad"
  options {
    "fingerprint.denylist" = "env_aws,env_azure,env_digitalocean,env_gce,consul,vault"
  }
}
plugin "docker" {
  config {
    endpoint         = "unix:///run/docker.sock"
    allow_privileged = true
    allow_caps       = ["all"]
    volumes {
      enabled = true
    }
    gc {
      image = false
    }
  }
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
