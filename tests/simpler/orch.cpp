// SPDX-License-Identifier: Apache-2.0
//
// All entries in one object: compiling is most of what the test costs.
#include "names.cpp"
#include "order.cpp"
#include "rules.cpp"
