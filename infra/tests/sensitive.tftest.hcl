# A sensitive value in the settings of one function.

mock_provider "aws" {
  source = "./tests/mocks"
}

run "a_sensitive_setting_of_one_function_hides_no_other_setting" {
  module {
    source = "./tests/sensitive"
  }

  assert {
    condition     = output.log_group == "/aws/lambda/tidelake-compact" && length(output.functions) == 3
    error_message = "The parent module can show the names of functions."
  }
}
