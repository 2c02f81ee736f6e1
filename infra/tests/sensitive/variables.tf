variable "token" {
  description = "A value that plans do not show."
  type        = string
  default     = "of-a-device"
  sensitive   = true
  nullable    = false
}
