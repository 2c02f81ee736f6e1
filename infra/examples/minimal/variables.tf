variable "region" {
  description = "AWS region."
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Invalid region: expected a name like us-east-1."
  }
}

variable "name" {
  description = "Prefix of the names of all resources."
  type        = string
  default     = "tidelake"
}

variable "packages" {
  description = "Location of the zips: a directory, by default that of `cargo xtask package`, or s3://BUCKET/PREFIX."
  type        = string
  default     = "../../../target/package"
}

variable "architecture" {
  description = "Architecture of the zips: x86_64 or arm64."
  type        = string
  default     = "x86_64"
}
