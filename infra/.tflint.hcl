plugin "terraform" {
  enabled = true
  preset  = "all"
}

# A module composed of modules declares the provider they need.
rule "terraform_unused_required_providers" {
  enabled = false
}
