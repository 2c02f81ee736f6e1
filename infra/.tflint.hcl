plugin "terraform" {
  enabled = true
  preset  = "all"
}

# A module that consists of modules says which provider these need.
rule "terraform_unused_required_providers" {
  enabled = false
}
