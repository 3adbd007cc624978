/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROW_WIDTH_H
#define ROW_WIDTH_H

enum { ROW_WIDTH = 64 };

#endif
