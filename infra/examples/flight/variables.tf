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

variable "image" {
  description = "The container image of the server, with a tag or a digest."
  type        = string
}

variable "image_repository_arn" {
  description = "ARN of the ECR repository of the image; null for an image that anybody may pull."
  type        = string
  default     = null
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the VPC, with a way to the image and to CloudWatch."
  type        = list(string)
}

variable "route_table_ids" {
  description = "Route tables of those subnets, to get an endpoint of S3; none where there is one."
  type        = list(string)
  default     = []
}

variable "admin_password_secret_arn" {
  description = "ARN of a secret of Secrets Manager that is the password of the first user, `admin`. Null where `tidelake access` has made users."
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
  description = "The name that clients connect to."
  type        = string
}

variable "zone_id" {
  description = "Zone of Route 53 where that name is made; null where it is made elsewhere."
  type        = string
  default     = null
}

variable "email" {
  description = "Address that alarms are sent to; null for none."
  type        = string
  default     = null
}
