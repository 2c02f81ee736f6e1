# A deployment with one sensitive setting; a parent module outputs the other settings.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

module "tidelake" {
  source   = "../.."
  packages = "s3://artifacts/1.0.0"
  ingest   = { environment = { TOKEN = var.token } }
}
