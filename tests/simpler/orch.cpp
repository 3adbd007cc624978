// SPDX-License-Identifier: Apache-2.0
//
// All entries in one object, because compiling takes most of the time of the test.
#include "names.cpp"
#include "order.cpp"
#include "rules.cpp"
