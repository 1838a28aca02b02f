# Finds cuDNN: the target giro::cudnn and cuDNN_FOUND.
include(${CMAKE_CURRENT_LIST_DIR}/GiroNvidia.cmake)
giro_find_nvidia(cuDNN giro::cudnn cudnn.h cudnn libcudnn.so.9)
