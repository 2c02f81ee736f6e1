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

variable "image" {
  description = "The container image of the server, with a tag or a digest."
  type        = string
}

variable "image_repository_arn" {
  description = "ARN of the ECR repository of the image; null for a public image."
  type        = string
  default     = null
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the VPC that can reach the image registry and CloudWatch."
  type        = list(string)
}

variable "route_table_ids" {
  description = "Route tables of those subnets that get a gateway endpoint of S3; empty if one exists."
  type        = list(string)
  default     = []
}

variable "admin_password_secret_arn" {
  description = "ARN of a Secrets Manager secret with the password of the first user, `admin`. Null if `tidelake access` has created users."
  type        = string
  default     = null
}

variable "allowed_cidrs" {
  description = "Networks that may connect."
  type        = list(string)
}

variable "certificate_arn" {
  description = "ARN of the certificate for hostname."
  type        = string
}

variable "hostname" {
  description = "Host name that clients connect to."
  type        = string
}

variable "zone_id" {
  description = "Route 53 zone in which the host name is created; null if it is created elsewhere."
  type        = string
  default     = null
}

variable "email" {
  description = "E-mail address for alarms; null for none."
  type        = string
  default     = null
}
