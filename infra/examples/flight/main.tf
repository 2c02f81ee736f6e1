# Flight SQL for JDBC, ADBC and Grafana within a VPC, in addition to the functions. The load balancer and the task are billed while idle.

provider "aws" {
  region = var.region

  default_tags {
    tags = { Project = var.name }
  }
}

module "tidelake" {
  source = "../.."

  name         = var.name
  packages     = var.packages
  architecture = var.architecture

  flight = {
    image                     = var.image
    image_repository_arn      = var.image_repository_arn
    vpc_id                    = var.vpc_id
    subnet_ids                = var.subnet_ids
    s3_endpoint_route_tables  = var.route_table_ids
    allowed_cidrs             = var.allowed_cidrs
    admin_password_secret_arn = var.admin_password_secret_arn
    certificate_arn           = var.certificate_arn
    hostname                  = var.hostname
    zone_id                   = var.zone_id
    max_tasks                 = 3
  }

  observability = { email = var.email }
}
