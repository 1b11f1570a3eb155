/*
 * frames.c
 *	  What brings messages: a list of buffers, or libpq.
 *
 * Nothing is linked with libpq.  It is the one that psycopg has loaded, whose functions are handed
 * over as addresses, together with a connection that psycopg keeps open during the call.
 */
#include "route.h"

/* Take a list, or a tuple (connection, PQgetCopyData, PQfreemem, notices) of addresses. */
bool
open_frames(Frames *frames, PyObject *source)
{
	memset(frames, 0, sizeof(Frames));
	if (PyList_Check(source))
	{
		frames->list = source;
		return true;
	}
	if (!PyTuple_Check(source) || PyTuple_GET_SIZE(source) != 4 ||
		!PyList_Check(PyTuple_GET_ITEM(source, 3)))
	{
		PyErr_SetString(PyExc_TypeError, "frames come from a list or from a connection");
		return false;
	}
	frames->connection = PyLong_AsVoidPtr(PyTuple_GET_ITEM(source, 0));
	*(void **) &frames->get_copy_data = PyLong_AsVoidPtr(PyTuple_GET_ITEM(source, 1));
	*(void **) &frames->free_memory = PyLong_AsVoidPtr(PyTuple_GET_ITEM(source, 2));
	frames->notices = PyTuple_GET_ITEM(source, 3);
	if (!PyErr_Occurred() && (frames->connection == NULL || frames->get_copy_data == NULL ||
							  frames->free_memory == NULL))
		PyErr_SetString(PyExc_ValueError, "there is no connection");
	return !PyErr_Occurred();
}

/*
 * Return the size of the next frame, 0 when there is none, less when there will be none; 0 with an
 * exception set when it is no frame.  Whoever gets one ends it.
 *
 * libpq does not wait.  It may call psycopg, which takes notices: Python's lock is held all the
 * time.
 */
int
next_frame(Frames *frames, Frame *frame)
{
	int			size;

	memset(frame, 0, sizeof(Frame));
	if (frames->list != NULL)
	{
		if (frames->at >= PyList_GET_SIZE(frames->list) ||
			PyObject_GetBuffer(PyList_GET_ITEM(frames->list, frames->at), &frame->buffer,
							   PyBUF_SIMPLE) < 0)
			return 0;
		frames->at++;
		frame->data = frame->buffer.buf;
		frame->size = (size_t) frame->buffer.len;
		return 1;
	}
	size = frames->get_copy_data(frames->connection, &frame->copied, 1);
	if (size > 0)
	{
		frame->data = (const unsigned char *) frame->copied;
		frame->size = (size_t) size;
	}
	return size;
}

void
end_frame(Frames *frames, Frame *frame)
{
	if (frames->list != NULL)
		PyBuffer_Release(&frame->buffer);
	else
		frames->free_memory(frame->copied);
}

bool
has_notices(const Frames *frames)
{
	return frames->notices != NULL && PyList_GET_SIZE(frames->notices) > 0;
}
