variable "region" {
  description = "Region of AWS."
  type        = string
  default     = "us-east-1"

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "A region is written like us-east-1."
  }
}

variable "name" {
  description = "Begins the names of what is made."
  type        = string
  default     = "tidelake"
}

variable "packages" {
  description = "Where the zips are: a directory, by default that of `cargo xtask package`, or s3://BUCKET/PREFIX."
  type        = string
  default     = "../../../target/package"
}

variable "architecture" {
  description = "What the zips were built for: x86_64 or arm64."
  type        = string
  default     = "x86_64"
}

variable "replica_region" {
  description = "Region of the copy."
  type        = string
  default     = "us-west-2"

  validation {
    condition     = var.replica_region != var.region
    error_message = "The copy is in another region."
  }

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.replica_region))
    error_message = "A region is written like us-west-2."
  }
}
